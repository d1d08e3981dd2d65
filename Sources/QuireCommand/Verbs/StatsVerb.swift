import ArgumentParser
import Quire

/// `quire stats PATH`
struct StatsVerb: DocumentVerb {
    static let name = "stats"
    static let abstract = "Shows what takes up space: by entity, with empty and large values."
    static let discussion = """
        Values are counted as last saved: texts in UTF-8, binary values by their size, UUIDs as 16 bytes, \
        and numbers, dates and references as 8. “external” is the size of values in external files. \
        “database” is the size of the pages of a table with its indexes, on the line of the entity that owns \
        the table. Attributes that are empty in at least half of the objects, and the ten largest texts and \
        binary values, are listed too. --only prints one of these three parts. Formats other than tables and \
        JSON always print one: the entities by default.

        EXAMPLES:
          quire stats Library.quire
          quire stats Library.quire --only largest --csv
          quire stats Library.quire --json
        """
    static let access = DocumentSession.Access.read
    typealias Printing = RowOptions

    @Option(help: ArgumentHelp("Print only this part.", valueName: "PART"))
    var only: StatisticsListing.Part?

    @MainActor
    func run(on document: DocumentSession) async throws -> Reply {
        let statistics = try ProgressBar.showing("Reading \(document.path)", of: .objects) {
            try StoreStatistics(of: document.store, progress: $0)
        }
        let listing = StatisticsListing(statistics: statistics, only: only)
        return Reply { try listing.print($0) }
    }
}
