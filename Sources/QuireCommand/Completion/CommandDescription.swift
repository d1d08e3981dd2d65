import ArgumentParser
import Foundation

/// A command with its arguments, as ArgumentParser describes it.
struct CommandDescription: Decodable {
    /// A positional argument, an option or a flag.
    struct Argument: Decodable {
        enum Kind: String, Decodable { case positional, option, flag }

        struct Name: Decodable {
            enum Kind: String, Decodable { case long, short, longWithSingleDash }

            var kind: Kind
            var name: String

            /// The name with its dashes.
            var text: String { (kind == .long ? "--" : "-") + name }
        }

        var kind: Kind
        var names: [Name]?
        var valueName: String?
        var abstract: String?
        /// The title of the section that it is listed in.
        var sectionTitle: String?
        var defaultValue: String?
        /// The values of an enumeration.
        var allValues: [String]?
        var isOptional: Bool
        var isRepeating: Bool
        var shouldDisplay: Bool
        var parsingStrategy: String

        /// Its long name, or else its only one; `nil` if it is positional.
        var preferredName: Name? { names?.first { $0.kind == .long } ?? names?.first }
    }

    var commandName: String
    var abstract: String?
    var discussion: String?
    var aliases: [String]?
    var shouldDisplay: Bool
    var arguments: [Argument]?
    var subcommands: [CommandDescription]?

    /// Describes a command and its subcommands.
    ///
    /// - Throws: `DecodingError` if the parser describes commands in another form.
    init(_ command: any ParsableCommand.Type) throws {
        struct Tool: Decodable { var command: CommandDescription }
        let text = command._dumpHelp()
        self = try JSONDecoder().decode(Tool.self, from: Data(text.utf8)).command
    }
}
