import ArgumentParser
import Quire
import QuireDocuments

/// A format of rows.
enum RowFormat: String, CaseIterable, ExpressibleByArgument, EnumerableFlag {
    case table, csv, tsv, json, jsonl, markdown

    static func help(for format: RowFormat) -> ArgumentHelp? {
        switch format {
        case .table: "Print a table."
        case .csv: "Print CSV, with whole values."
        case .tsv: "Print values separated by tabs."
        case .json: "Print JSON."
        case .jsonl: "Print a JSON object per line."
        case .markdown: "Print a Markdown table."
        }
    }
}

/// The options for the form of a verb's output.
protocol PrintingOptions: ParsableArguments {
    /// Prints with a closure, and writes everything out.
    ///
    /// - Parameters:
    ///   - format: The format, if the options give none.
    ///   - compact: Whether JSON stays on one line.
    ///   - reportsChanges: See ``Output/reportsChanges``.
    func print(
        default format: RowFormat, compact: Bool, reportsChanges: Bool,
        _ body: (Output) throws -> Void
    ) throws
}

/// The option of a verb that prints a record or sentences.
struct JSONOption: PrintingOptions, ResultPrinting {
    @Flag(help: "Print JSON.")
    var json = false

    func print(
        default format: RowFormat, compact: Bool, reportsChanges: Bool,
        _ body: (Output) throws -> Void
    ) throws {
        let output = Output(
            json ? .json : format, compact: compact, reportsChanges: reportsChanges)
        try body(output)
        try output.flush()
    }
}

/// The options of a verb that prints rows.
struct RowOptions: PrintingOptions {
    @Option(help: ArgumentHelp("Output format.", valueName: "FORMAT"))
    var format: RowFormat?

    @Flag var shorthands: [RowFormat] = []

    @Flag(help: "Omit the header line.")
    var noHeaders = false

    @Option(
        name: .shortAndLong,
        help: ArgumentHelp(
            "Write to a file instead of standard output.", valueName: "FILE"),
        completion: .file())
    var output: String?

    @Flag(help: "Replace an existing file.")
    var replace = false

    @OptionGroup var color: ColorOption

    /// The format that is asked for.
    private var chosen: RowFormat? { format ?? shorthands.first }

    func validate() throws {
        if Set(shorthands + [format].compactMap(\.self)).count > 1 {
            throw ValidationError("Specify only one output format.")
        }
        if noHeaders, [.json, .jsonl, .markdown].contains(chosen) {
            throw ValidationError("--no-headers applies only to tables, CSV and TSV.")
        }
        if replace, output == nil { throw ValidationError("--replace requires --output.") }
    }

    func print(
        default format: RowFormat = .table, compact: Bool = false, reportsChanges: Bool = false,
        _ body: (Output) throws -> Void
    ) throws {
        // A session's JSON is an option of the command line.
        let format = try chosen ?? (format == .table ? Defaults.current().format : nil) ?? format
        guard let path = output else {
            let pager = reportsChanges ? nil : Pager()
            defer { pager?.finish() }
            let output = Output(
                format, hasHeader: !noHeaders, compact: compact,
                reportsChanges: reportsChanges, pager: pager)
            try body(output)
            return try output.flush()
        }
        try DocumentPackage.checkOutside(path)
        let place = replace ? FileSystem.resolvingLink(path) : path
        if let old = try FileSystem.informationWithoutFollowing(at: place) {
            guard replace else { throw QuireError.alreadyExists(at: path) }
            if old.kind != .regular {
                throw QuireError(
                    .invalidValue, "“\(path)” is not a regular file, so it cannot be replaced.",
                    file: path)
            }
        }
        let sibling = try TemporarySibling.makeFile(beside: place)
        defer { sibling.remove() }
        try sibling.building {
            let output = Output(
                format, hasHeader: !noHeaders, reportsChanges: reportsChanges
            ) {
                try sibling.file.write($0)
            }
            try body(output)
            try output.flush()
            try sibling.publishFile(replacing: replace)
        }
    }
}
