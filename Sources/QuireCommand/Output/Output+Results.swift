import Quire

extension Output {
    /// Prints the result of a command on standard output and writes it out: JSON if the user asked for it, otherwise lines.
    ///
    /// - Parameters:
    ///   - reportsChanges: Whether the result reports a change that has been made; see ``Output/reportsChanges``.
    ///   - levels: How many levels of the JSON are spread over lines.
    /// - Throws: As ``flush()``.
    static func printResult(
        json: Bool, reportsChanges: Bool, levels: Int = 1, _ lines: [String],
        _ value: () throws -> JSONValue
    ) throws {
        let output = Output(json: json, reportsChanges: reportsChanges)
        try output.printResult(levels: levels, lines, value)
        try output.flush()
    }

    /// Prints a JSON value if the output is JSON, otherwise lines.
    func printResult(
        levels: Int = 1, _ lines: [String], _ value: () throws -> JSONValue
    ) throws {
        if json { return try print(value(), levels: levels) }
        for line in lines { try print(line) }
    }
}
