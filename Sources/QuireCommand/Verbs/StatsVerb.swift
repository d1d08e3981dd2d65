import ArgumentParser
import Quire

/// `quire stats PATH`
struct StatsVerb: DocumentVerb {
    static let name = "stats"
    static let abstract = "Shows what takes up space: by entity, with empty and large values."
    static let discussion = """
        Values are counted as last saved: texts in UTF-8, binary values by their size, UUIDs with 16 bytes, \
        and numbers, dates and references with 8. “external” are values in files of their own. “database” \
        are the pages of a table with its indexes, on the line of the entity that owns the table. Then come \
        the attributes that are empty in at least half of the objects, and the ten largest texts and binary \
        values. Formats other than JSON print one of the three parts: that of --only, or else the entities.

        EXAMPLES:
          quire stats Library.quire
          quire stats Library.quire --only largest --csv
          quire stats Library.quire --json
        """
    static let access = DocumentSession.Access.read
    typealias Printing = RowOptions

    @Option(help: ArgumentHelp("Print one part.", valueName: "PART"))
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
