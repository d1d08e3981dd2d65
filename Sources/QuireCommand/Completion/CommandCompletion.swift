import ArgumentParser
import Foundation

/// Completion of a command line, or of a line of a session: which words may come next.
///
/// The words before the cursor are parsed as ArgumentParser will parse them, without running anything. Candidates come from
/// ``candidates(in:)``, which reads the document if they depend on it.
struct CommandCompletion {
    /// A word that may replace the one at the cursor.
    struct Candidate: Equatable {
        var text: String
        /// Its meaning, in a line.
        var summary = ""
        /// Whether more must be typed directly behind it, as after `key=`.
        var isUnfinished = false
    }

    /// The files that the shell completes by itself, if there is no candidate.
    enum Files: String { case files, folders }

    /// The values of an argument.
    enum Values: Equatable {
        case nothing, files, folders
        case list([String])
        /// The commands that `help` explains.
        case commands
        case documentTemplates, classTemplates
        /// Of the document.
        case entities, entitiesOrProperties, objects, objectsOrEntities, assignments,
            objectsOrAssignments, keys,
            binaryAttributes, columnMappings
        case fetchRequests, contentFiles, keySlots, versions, versionsOrFiles
        /// Of the model at the path.
        case modelVersions
    }

    /// The root of the commands, for their names.
    private let root: any ParsableCommand.Type
    /// The command that the words name, and the names of those that lead to it.
    private(set) var command: any ParsableCommand.Type
    private(set) var path: [String] = []
    /// The subcommands that may come next.
    private var subcommands: [any ParsableCommand.Type] = []
    private var options: [CommandDescription.Argument] = []
    /// The values that were given before the cursor.
    private(set) var given: [(argument: CommandDescription.Argument, value: String)] = []
    /// The argument whose value is typed; `nil` if it is the name of an option or of a command.
    private(set) var expected: CommandDescription.Argument?
    /// The word at the cursor.
    let current: String
    /// The part of it that belongs to the expected argument: of `--format=js` that after the `=`.
    private(set) var value: String

    // MARK: - Parsing

    /// Parses the words before the cursor.
    ///
    /// - Parameters:
    ///   - words: The words before that at the cursor, without the name of the program.
    ///   - current: The part of the word at the cursor that is before the cursor; empty if a new word begins there.
    ///   - root: `QuireCommand`, or `SessionCommand` for a line of a session.
    init(words: [String], current: String, in root: any ParsableCommand.Type) {
        self.root = root
        self.current = current
        command = root
        value = current
        var rest = words[...]
        let isHelp =
            rest.first == "help"
            && !root.configuration.subcommands.contains { $0._commandName == "help" }
        if isHelp { rest.removeFirst() }
        while true {
            let below = command.configuration.subcommands
            let found = rest.first.flatMap { word in
                below.first { $0._commandName == word || $0.configuration.aliases.contains(word) }
            }
            if let found {
                rest.removeFirst()
                enter(found)
            } else if !rest.isEmpty, !isHelp, let other = command.configuration.defaultSubcommand {
                enter(other)
            } else {
                if rest.isEmpty { subcommands = below }
                break
            }
        }
        if isHelp { return }
        // A document may come instead of a subcommand.
        let parsed = subcommands.isEmpty ? nil : command.configuration.defaultSubcommand
        let arguments = (try? CommandDescription(parsed ?? command))?.arguments ?? []
        if rest.isEmpty || subcommands.isEmpty && command.configuration.subcommands.isEmpty {
            parse(rest, by: arguments.filter(\.shouldDisplay))
        }
    }

    private mutating func enter(_ command: any ParsableCommand.Type) {
        self.command = command
        path.append(command._commandName)
    }

    private mutating func parse(
        _ words: ArraySlice<String>, by arguments: [CommandDescription.Argument]
    ) {
        var positionals = arguments.filter { $0.kind == .positional }[...]
        options = arguments.filter { $0.kind != .positional }
        var pending: CommandDescription.Argument?
        var isTerminated = false
        for word in words {
            if let option = pending, Self.mayBeValue(word, of: option) {
                given.append((option, word))
                if option.parsingStrategy != "upToNextOption" { pending = nil }
                continue
            }
            pending = nil
            if !isTerminated, word == "--" {
                isTerminated = true
            } else if !isTerminated, word.hasPrefix("-"), word != "-" {
                let (name, value) = Self.split(word)
                guard let option = option(named: name) else { continue }
                if let value {
                    given.append((option, value))
                } else if option.kind == .option {
                    pending = option
                }
                if !option.isRepeating {
                    options.removeAll { $0.preferredName?.text == option.preferredName?.text }
                }
            } else if let positional = positionals.first {
                given.append((positional, word))
                if !positional.isRepeating { positionals.removeFirst() }
            }
        }
        if let pending, Self.mayBeValue(current, of: pending) {
            expected = pending
        } else if !isTerminated, current.hasPrefix("-"), current != "-" || positionals.isEmpty {
            let (name, value) = Self.split(current)
            if let value, let option = option(named: name) {
                expected = option
                self.value = value
            }
        } else {
            expected = positionals.first
        }
    }

    private static func mayBeValue(_ word: String, of option: CommandDescription.Argument) -> Bool {
        option.parsingStrategy == "unconditional" || !word.hasPrefix("-") || word == "-"
    }

    /// An option's name, and the value that is given after `=`.
    private static func split(_ word: String) -> (name: String, value: String?) {
        guard let mark = word.firstIndex(of: "=") else { return (word, nil) }
        return (String(word[..<mark]), String(word[word.index(after: mark)...]))
    }

    private func option(named name: String) -> CommandDescription.Argument? {
        options.first { $0.names?.contains { $0.text == name } ?? false }
    }

    // MARK: - What comes next

    /// The values of the expected argument.
    var values: Values { expected.map { Self.values(of: $0, after: path) } ?? .nothing }

    /// The files to complete if there is no candidate.
    var files: Files? {
        switch values {
        case .files, .versionsOrFiles: .files
        case .folders, .documentTemplates, .classTemplates: .folders
        default: nil
        }
    }

    /// The document of the command line; `nil` if none is given, or in a session.
    var documentPath: String? {
        given.first {
            $0.argument.kind == .positional && Self.values(of: $0.argument, after: path) == .files
        }?.value
    }

    /// The value of an option that was given.
    func value(ofOption name: String) -> String? {
        given.last { $0.argument.preferredName?.text == name }?.value
    }

    /// The names of commands and options that may come next.
    var words: [Candidate] {
        let isOption = expected == nil && (current.hasPrefix("-") || subcommands.isEmpty)
        let commands = expected == nil || !subcommands.isEmpty ? Self.candidates(subcommands) : []
        guard isOption else { return commands.filter { $0.text.hasPrefix(current) } }
        let options = options.compactMap { option in
            option.preferredName.map { Candidate(text: $0.text, summary: option.abstract ?? "") }
        }
        return options.filter { $0.text.hasPrefix(current) }
    }

    /// The commands as candidates.
    static func candidates(_ commands: [any ParsableCommand.Type]) -> [Candidate] {
        commands.filter { $0.configuration.shouldDisplay }.map {
            Candidate(text: $0._commandName, summary: $0.configuration.abstract)
        }
    }

    /// The commands that `help` explains.
    var explainedCommands: [Candidate] { Self.candidates(root.configuration.subcommands) }

    // MARK: - Arguments

    /// The values of an argument: by the name that its help gives them, unless the command has others for that name.
    ///
    /// - Parameter path: The names of the command.
    static func values(of argument: CommandDescription.Argument, after path: [String]) -> Values {
        if let list = argument.allValues, !list.isEmpty { return .list(list) }
        let name = argument.valueName ?? ""
        let command = path.joined(separator: " ")
        let option = argument.preferredName?.text ?? name
        return exceptions["\(command) \(option)"] ?? valuesByName[name] ?? .nothing
    }

    /// The values by the names that help texts give them. Those that nothing can be listed of are left out.
    private static let valuesByName: [String: Values] = [
        "PATH": .files, "DOCUMENT": .files, "STORE": .files, "ARCHIVE": .files, "MODEL": .files,
        "DAMAGED": .files,
        "OLD": .files, "BASE": .files, "OURS": .files, "THEIRS": .files, "NEW": .files,
        "OTHER": .files, "FILE": .files, "OUT": .files, "SOURCE": .files,
        "KEYBAG": .files, "M": .files,
        "M.xcdatamodeld": .files, "M.xcmappingmodel": .files, "FOLDER": .folders,
        "ENTITY": .entities, "ENTITY[.PROPERTY]": .entitiesOrProperties,
        "OBJECT": .objects, "ID": .objects, "ID|ENTITY": .objectsOrEntities,
        "ID|ENTITY|k=v": .objectsOrAssignments, "k=v": .assignments, "ATTRIBUTE": .binaryAttributes,
        "COLUMN=PROPERTY": .columnMappings, "a,b": .keys, "a,b.c": .keys, "k,-k": .keys, "F": .keys,
        "VERSION": .versions, "SINCE": .versionsOrFiles, "T": .documentTemplates, "word": .commands,
    ]

    /// The values of arguments whose names mean something else in other commands.
    private static let exceptions: [String: Values] = [
        "content list FILE": .contentFiles, "content get FILE": .contentFiles,
        "content remove FILE": .contentFiles,
        "content add --to": .nothing, "export --sign": .files, "keys remove KEY": .keySlots,
        "fetch --template": .fetchRequests, "explain --template": .fetchRequests,
        "versions diff OLD": .versions, "versions diff NEW": .versions,
        "model rename NEW": .nothing, "model show --template": .fetchRequests,
        "model --template": .fetchRequests,
        "model generate --template": .classTemplates,
        "model print --version": .modelVersions, "model check --version": .modelVersions,
        "model compile --version": .modelVersions, "model diff --from": .modelVersions,
    ]
}

// MARK: - Description

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
