import ArgumentParser
import Quire

/// Suggestions for mistaken command lines: the nearest command, the nearest file, and options by the names that they have in other
/// programs.
enum Corrections {
    // MARK: - Commands

    /// Commands by the words that other programs have for them.
    private static let commands = [
        "select": "fetch", "query": "fetch", "find": "fetch", "get": "fetch", "ls": "fetch",
        "list": "fetch", "show": "fetch", "count": "fetch", "add": "insert", "update": "set",
        "edit": "open", "rm": "delete", "remove": "delete", "del": "delete",
        "create": "new", "init": "new", "make": "new", "schema": "model",
        "validate": "check", "fsck": "check", "zip": "export",
        "archive": "export", "pack": "export", "unzip": "extract", "unpack": "extract",
        "restore": "versions", "snapshot": "versions", "backup": "versions", "encrypt": "protect",
        "copy": "duplicate", "cp": "duplicate", "salvage": "recover", "fix": "repair",
        "compare": "diff", "upgrade": "migrate", "version": "--version",
    ]

    /// The failure for the first word that is not a command although one is expected there; `nil` if there is no such word.
    ///
    /// - Parameter root: The command that the words follow.
    static func unknownCommand(
        _ words: some Sequence<String>, after root: any ParsableCommand.Type
    ) -> Failure? {
        var command = root
        var path = root._commandName
        for word in words {
            let configuration = command.configuration
            let below = configuration.subcommands
            if word.hasPrefix("-") || word == "help" || below.isEmpty
                || configuration.defaultSubcommand != nil
            {
                return nil
            }
            let found = below.first {
                $0._commandName == word || $0.configuration.aliases.contains(word)
            }
            guard let found else {
                let lines = SessionCommand.configuration.subcommands
                if command == QuireCommand.self, lines.contains(where: { $0._commandName == word })
                {
                    return Failure.usage(
                        "“\(word)” is a session command; start a session with 'quire open'.")
                }
                var names = below.filter { $0.configuration.shouldDisplay }
                    .map { $0._commandName }
                if command == SessionCommand.self {
                    let lines = DocumentLine.commands.keys.map { $0.split(separator: " ") }
                    let subcommands = lines.filter { $0.count > 1 && $0[0] == word }.map { $0[1] }
                    if !subcommands.isEmpty {
                        let list = subcommands.sorted().joined(separator: ", ")
                        return Failure.usage(
                            "“\(word)” requires a subcommand: \(list). See 'help \(word)'.")
                    }
                    names += Set(lines.map { String($0[0]) })
                }
                var advice = Array(CloseNames.of(word, among: names).prefix(1))
                if let meant = commands[word.lowercased()], command == root,
                    names.contains(meant) || meant.hasPrefix("-")
                {
                    advice = [meant]
                }
                // A document where a command is expected, as in `quire Library.quire` or `quire versions Library.quire`.
                if !path.isEmpty, FileSystem.exists(FileSystem.absolute(word)) {
                    if command == QuireCommand.self { advice = ["\(path) open \(word)"] }
                    if names.contains("list") { advice = ["\(path) list \(word)"] }
                }
                let question = advice.first.map { "; did you mean “\($0)”?" } ?? "."
                let help = path.isEmpty ? "help" : "\(path) --help"
                return Failure.usage("“\(word)” is not a command\(question) See '\(help)'.")
            }
            command = found
            path += " \(word)"
        }
        return nil
    }

    // MARK: - Options

    /// Options by the names that other programs have for them.
    private static let options = [
        "order-by": "sort", "orderby": "sort", "order": "sort", "filter": "where",
        "select": "columns", "fields": "columns", "properties": "columns", "max": "limit",
        "top": "limit", "head": "limit", "skip": "offset", "group": "group-by", "force": "replace",
        "overwrite": "replace", "password": "passphrase-fd", "key": "key-file",
        "unique": "distinct",
        "type": "to", "v": "version", "V": "version",
    ]

    /// A sentence of the parser about an option or an argument, with the correction.
    ///
    /// - Parameters:
    ///   - path: The names of the command and of those above it.
    ///   - root: The command that they follow.
    static func correctingUsage(
        _ sentence: String, of path: [String], after root: any ParsableCommand.Type
    ) -> String {
        let command = path.reduce(root) { command, name in
            command.configuration.subcommands.first { $0._commandName == name } ?? command
        }
        let names = root.helpMessage(for: command).matches(of: /--[a-z-]+/).map {
            String($0.output)
        }
        if let match = sentence.firstMatch(of: /^Unknown option '-+(?<name>[^'=]+)[^']*'\./),
            let meant = options[String(match.name)], names.contains("--\(meant)")
        {
            return "\(match.output.0) Did you mean '--\(meant)'?"
        }
        if let match = sentence.firstMatch(of: /^Unexpected argument '(?<word>[^']*)'\./),
            names.contains("--columns"), !match.word.hasPrefix("-")
        {
            return ["asc", "desc"].contains(match.word.lowercased())
                ? "\(match.output.0) --sort KEY is ascending, --sort -KEY descending."
                : "\(match.output.0) Specify columns with --columns."
        }
        return sentence
    }

    // MARK: - Conditions

    /// A note on a condition that means something else in SQL.
    static func note(on format: String) -> String? {
        let patterns = format.matches(
            of: /(?i)\bLIKE(?:\[\w+\])?\s*(?<mark>["'])(?<pattern>[^"']*)\k<mark>/
        ).map(\.pattern)
        let isSQL = patterns.contains { $0.contains("%") && !$0.contains(where: "*?".contains) }
        return isSQL ? "The wildcards of LIKE are * and ?; % is an ordinary character." : nil
    }

    // MARK: - Files

    /// The end of a sentence about a file that does not exist: the order of arguments, or a file beside it with a similar name.
    ///
    /// - Parameter path: The absolute path of the file.
    static func missingFile(_ path: String) -> String? {
        let words = CommandLine.arguments
        if words.count > 3, FileSystem.absolute(words[2]) == path,
            FileSystem.exists(FileSystem.absolute(words[3]))
        {
            return "the path comes first: quire \(words[1]) \(words[3]) \(words[2])."
        }
        let (folder, name) = (FileSystem.folder(of: path), FileSystem.name(of: path))
        let names = ((try? FileSystem.names(in: folder)) ?? []).filter { isSimilar($0, to: name) }
        guard let first = CloseNames.of(name, among: names).first ?? names.min() else { return nil }
        let typed = TypedPaths.restored(path)
        let beginning = typed.hasSuffix(name) ? String(typed.dropLast(name.count)) : folder + "/"
        return "did you mean “\(beginning)\(first)”?"
    }

    /// Whether the name of a file differs from a missing one by its extension, by case or by few letters. Extensions are too much
    /// alike to be compared with the rest.
    private static func isSimilar(_ name: String, to missing: String) -> Bool {
        if name == missing || name.hasPrefix(".") { return false }
        func stem(_ name: String) -> String {
            name.lastIndex(of: ".").map { String(name[..<$0]) } ?? name
        }
        let (stem, missingStem) = (stem(name), stem(missing))
        if stem.lowercased() == missingStem.lowercased() { return true }
        return missingStem.count > 2 && !CloseNames.of(missingStem, among: [stem]).isEmpty
            && !CloseNames.of(missing, among: [name]).isEmpty
    }
}

/// The paths of the command line, which errors print as they were typed.
enum TypedPaths {
    /// The words of the command line, or of the line of a session.
    private static let words = Lock(Array(CommandLine.arguments.dropFirst()))

    /// Sets the words of the line that is run.
    static func use(_ line: [String]) { words.withLock { $0 = line } }

    /// The words that may be paths, by the absolute path that each is.
    private static var known: [String: String] {
        var found: [String: String] = [:]
        for word in words.withLock(\.self)
        where !word.hasPrefix("-") && !word.isEmpty && word.utf8.count < 4096 {
            // `key=@FILE` too.
            let path = word.firstRange(of: "=@").map { String(word[$0.upperBound...]) } ?? word
            let absolute = FileSystem.absolute(path)
            if absolute != path { found[absolute] = path }
        }
        return found
    }

    /// A path as it was typed.
    static func restored(_ path: String) -> String {
        String(restoring("“\(path)”").dropFirst().dropLast())
    }

    /// A sentence with the paths in quotation marks as they were typed.
    static func restoring(_ sentence: String) -> String {
        let paths = known.sorted { $0.key.utf8.count > $1.key.utf8.count }
        return paths.reduce(sentence) { sentence, path in
            sentence.replacing("“\(path.key)”", with: "“\(path.value)”")
                .replacing("“\(path.key)/", with: "“\(path.value)/")
        }
    }
}
