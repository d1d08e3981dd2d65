import ArgumentParser
import Quire

/// The options that say what is shown of objects, and in what order.
struct ListingOptions: ParsableArguments {
    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "Keys, expressions or names of columns to sort by; one with - before it sorts downwards.",
            valueName: "k,-k"))
    var sort: String?

    @Option(help: ArgumentHelp("The greatest number of objects.", valueName: "N"))
    var limit: Int?

    @Option(help: ArgumentHelp("The number of objects to skip.", valueName: "N"))
    var offset: Int?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "The keys, paths or expressions to show: 'title,count(notes) AS n'.", valueName: "a,b.c"
        ))
    var columns: String?

    @Flag(help: "Print only how many there are.")
    var count = false

    func validate() throws {
        if let limit, limit < 1 { throw ValidationError("--limit must be at least 1.") }
        if let offset, offset < 0 { throw ValidationError("--offset must not be negative.") }
    }

    /// Whether any is given.
    var isGiven: Bool {
        sort != nil || limit != nil || offset != nil || columns != nil || count
    }
}

/// The options that put objects into groups.
struct GroupingOptions: ParsableArguments {
    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "Make one row of all objects that have these keys or expressions in common.",
            valueName: "a,b.c"))
    var groupBy: String?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("The condition that a group satisfies, such as 'n > 3'.", valueName: "F")
    )
    var having: String?

    @Flag(help: "Show equal rows once.")
    var distinct = false

    func validate() throws {
        if having != nil && groupBy == nil {
            throw ValidationError("--having needs --group-by; the condition of objects is --where.")
        }
    }

    /// Whether any is given.
    var isGiven: Bool { groupBy != nil || distinct }
}
