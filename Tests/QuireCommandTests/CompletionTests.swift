import ArgumentParser
import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireCommand

/// The words that may follow on a command line and in a session.
@MainActor @Suite struct CompletionTests {
    let shell: CommandShell

    init() throws { shell = try CommandShell() }

    /// A library with two books, whose folder the paths of command lines are in.
    private func makeLibrary() throws {
        _ = try shell.output(
            """
            quire new L.quire --template Library
            quire insert L.quire Author name='Jane Austen'
            quire insert L.quire Book title=Emma author=Author/p1
            quire insert L.quire Book title=Persuasion author=Author/p1
            """)
    }

    /// The candidates for the last of the words; `L.quire` is in the folder.
    private func candidates(_ words: String...) async throws -> [String] {
        try await completed(words).map(\.text)
    }

    private func completed(_ words: [String]) async throws -> [CommandCompletion.Candidate] {
        let words = words.map { $0.hasSuffix(".quire") ? shell.path($0) : $0 }
        let completion = CommandCompletion(
            words: words.dropLast(), current: try #require(words.last), in: QuireCommand.self)
        return await completion.candidates()
    }

    private func files(_ words: String...) throws -> CommandCompletion.Files? {
        CommandCompletion(
            words: words.dropLast(), current: try #require(words.last), in: QuireCommand.self
        ).files
    }

    // MARK: - Command lines

    @Test func commandsAreCompletedWithTheirAbstracts() async throws {
        #expect(try await candidates("ver") == ["versions", "verify"])
        #expect(
            try await candidates("versions", "")
                == VersionsCommand.configuration.subcommands.map { $0._commandName })
        #expect(try await completed(["fet"]).first?.summary == FetchVerb.abstract)
        #expect(try await candidates("complete-") == [])
        #expect(try await candidates("nonsense", "") == [])
    }

    @Test func helpCompletesCommands() async throws {
        #expect(try await candidates("help", "fet") == ["fetch"])
        #expect(try await candidates("help", "versions", "re") == ["restore", "resolve"])
    }

    @Test func optionsAreThoseOfTheCommandThatWereNotGiven() async throws {
        #expect(try await candidates("fetch", "--wh") == ["--where"])
        #expect(try await candidates("fetch", "--where", "x", "--wh") == [])
        #expect(try await candidates("insert", "--wh") == [])
        #expect(try await candidates("content", "add", "X", "--help").contains("--help"))
        #expect(try await candidates("info", "L.quire", "").contains("--json"))
        #expect(try await candidates("fetch", "--", "--wh") == [])
    }

    @Test func valuesOfEnumerationsAreCompletedInBothForms() async throws {
        #expect(try await candidates("fetch", "--format", "js") == ["json", "jsonl"])
        #expect(
            try await candidates("fetch", "--format=js") == ["--format=json", "--format=jsonl"])
        #expect(try await candidates("completion", "") == ["bash", "zsh", "fish"])
    }

    @Test func filesAreLeftToTheShell() throws {
        #expect(try files("fetch", "") == .files)
        #expect(try files("fetch", "L.quire", "--key-file", "") == .files)
        #expect(try files("library", "list", "") == .folders)
        #expect(try files("model", "") == .files)
        #expect(try files("fetch", "L.quire", "") == nil)
        #expect(try files("keys", "add", "L.quire", "--label", "") == nil)
    }

    @Test func entitiesAndKeysAreThoseOfTheDocument() async throws {
        try makeLibrary()
        #expect(try await candidates("fetch", "L.quire", "B") == ["Book"])
        #expect(try await candidates("model", "L.quire", "Au") == ["Author"])
        #expect(try await candidates("model", "remove", "L.quire", "Au") == ["Author", "Author."])
        #expect(try await candidates("model", "set", "L.quire", "Book.ti") == ["Book.title"])
        #expect(try await candidates("fetch", "L.quire", "Book", "--sort", "-y") == ["-year"])
        #expect(
            try await candidates("fetch", "L.quire", "Book", "--columns=title,author.n") == [
                "--columns=title,author.name"
            ])
        #expect(
            try await candidates("fetch", "L.quire", "Book", "--columns", "aut") == [
                "author", "author.",
            ])
        #expect(
            try await candidates("fetch", "L.quire", "Book", "--where", "year < 1900 AND ti") == [
                "year < 1900 AND title"
            ])
        #expect(
            try await candidates("import", "L.quire", "Book", "b.csv", "--key", "is") == ["isbn"])
    }

    @Test func objectsAreCompletedByTheirIdentifiers() async throws {
        try makeLibrary()
        #expect(try await candidates("set", "L.quire", "Bo") == ["Book", "Book/"])
        let books = try await completed(["set", "L.quire", "Book/"])
        #expect(
            books == [
                .init(text: "Book/p1", summary: "Emma"),
                .init(text: "Book/p2", summary: "Persuasion"),
            ])
        #expect(try await candidates("delete", "L.quire", "Book/p2") == ["Book/p2"])
        #expect(try await candidates("log", "L.quire", "--object", "Author/") == ["Author/p1"])
    }

    @Test func assignmentsAreCompletedByKeyAndValue() async throws {
        try makeLibrary()
        let rating = try await completed(["set", "L.quire", "Book/p1", "rat"])
        #expect(rating.map(\.text) == ["rating="])
        #expect(rating.first?.isUnfinished == true)
        #expect(try await candidates("set", "L.quire", "Book/p1", "rating=1", "rat") == [])
        #expect(
            try await candidates("insert", "L.quire", "Book", "author=Author/") == [
                "author=Author/p1"
            ])
        #expect(try await candidates("insert", "L.quire", "Book", "author=") == ["author=Author/"])
    }

    @Test func templatesVersionsAndContentAreCompletedByName() async throws {
        try makeLibrary()
        _ = try shell.output(
            """
            quire versions keep L.quire --name 'as handed in'
            echo x > 'my notes.txt' && quire content add L.quire 'my notes.txt' --to web
            """)
        #expect(
            try await candidates("model", "generate", "M", "F", "--template", "acc") == [
                "accessors"
            ])
        #expect(
            try await candidates("versions", "restore", "L.quire", "") == [
                "as handed in", "latest",
            ])
        #expect(try await candidates("diff", "L.quire", "as") == ["as handed in"])
        #expect(try await candidates("versions", "diff", "L.quire", "as") == ["as handed in"])
        #expect(try files("diff", "L.quire", "x") == .files)
        #expect(try await candidates("content", "get", "L.quire", "we") == ["web/my notes.txt"])
    }

    @Test func documentsThatCannotBeReadHaveNoCandidates() async throws {
        _ = try shell.output(
            """
            head -c 32 /dev/urandom > key && chmod 600 key; echo nonsense > Broken.quire; mkfifo Pipe
            quire new P.quire --template Library --class complete --key-file key
            """)
        #expect(try await candidates("fetch", "P.quire", "") == [])
        #expect(
            try await candidates("fetch", "P.quire", "--key-file", shell.path("key"), "Bo") == [
                "Book"
            ])
        #expect(try await candidates("fetch", "Broken.quire", "") == [])
        #expect(try await candidates("fetch", "Missing.quire", "") == [])
        #expect(try await candidates("versions", "show", "Missing.quire", "") == [])
        #expect(try await candidates("keys", "remove", "Broken.quire", "") == [])
    }

    @Test func completionLeavesNoTraceInTheDocument() async throws {
        try makeLibrary()
        let listing = "find L.quire -printf '%p %s %T@\\n' | sort"
        let before = try shell.output(listing)
        #expect(try await candidates("set", "L.quire", "Book/").count == 2)
        #expect(try shell.output(listing) == before)
    }

    /// A terminal would obey a value of the document.
    @Test func summariesHaveNoControlCharacters() async throws {
        try makeLibrary()
        _ = try shell.output("quire set L.quire Book/p1 title=$'a\\eb\\nc'")
        let books = try await completed(["set", "L.quire", "Book/p1"])
        #expect(books == [.init(text: "Book/p1", summary: #"a\u001bb\u000ac"#)])
    }

    // MARK: - Sessions

    @Test func linesOfASessionAreCompletedFromItsDocument() async throws {
        try makeLibrary()
        let document = try await DocumentSession.open(
            shell.path("L.quire"), modelPath: nil, access: .write)
        func candidates(_ words: String...) -> [String] {
            CommandCompletion(
                words: words.dropLast(), current: words.last ?? "", in: SessionCommand.self
            ).candidates(in: document).map(\.text)
        }
        #expect(candidates("re") == ["redo", "revert"])
        #expect(candidates("help", "fe") == ["fetch"])
        #expect(candidates("fetch", "Bo") == ["Book"])
        #expect(candidates("fetch", "Book", "--sort", "-ye") == ["-year"])
        let book = try document.context.insertObject(entityName: "Book")
        book["title"] = "Sanditon"
        #expect(candidates("set", "Book/t").count == 1)
        try await document.closeDiscardingChanges()
    }

    // MARK: - Arguments

    /// A new argument needs an entry in `CommandCompletion`, or here if nothing can be listed.
    @Test func valuesOfEveryArgumentAreKnown() throws {
        let unlisted: Set = [
            "C", "CLASS", "COLUMN", "DATE", "DATE|NUMBER|TOKEN", "EXTENSION", "IDENTITY", "KEY",
            "KEY=VALUE",
            "L", "N", "N(s|m|h|d|w)", "NAME", "NAME=value", "NUMBER", "PART", "PATTERN", "REPLICA",
            "OPTION[=VALUE]", "NEW",
            "SECONDS",
            "TEXT", "TRANSACTION", "V", "WORD",
        ]
        func check(_ command: CommandDescription, _ path: [String]) {
            for argument in command.arguments ?? [] where argument.kind != .flag {
                let name = argument.valueName ?? ""
                let values = CommandCompletion.values(of: argument, after: path)
                #expect(
                    values != .nothing || unlisted.contains(name) || name == "FOLDER",
                    "\(path.joined(separator: " ")): \(name)")
            }
            for subcommand in command.subcommands ?? [] where subcommand.commandName != "help" {
                check(subcommand, path + [subcommand.commandName])
            }
        }
        check(try CommandDescription(QuireCommand.self), [])
        check(try CommandDescription(SessionCommand.self), [])
    }

    @Test func commandsOfDocumentsAreLinesOfSessions() throws {
        // A session has no use for these: they create the document, concern another one, or do not end.
        let others: Set = [
            "new", "open", "watch", "repair", "unlock", "lock", "sync watch", "model show",
            "model compile", "model merge", "library rename", "library duplicate", "library trash",
            "library restore",
        ]
        func leaves(_ command: CommandDescription, _ path: [String]) -> [[String]] {
            let below = (command.subcommands ?? []).filter { $0.commandName != "help" }
            let first = command.arguments?.first { $0.kind == .positional }?.valueName
            if below.isEmpty { return ["PATH", "DOCUMENT", "MODEL"].contains(first) ? [path] : [] }
            return below.flatMap { leaves($0, path + [$0.commandName]) }
        }
        let lines = Set(SessionCommand.configuration.subcommands.map { $0._commandName })
        let names = leaves(try CommandDescription(QuireCommand.self), []).map {
            $0.joined(separator: " ")
        }
        for name in names where !lines.contains(name) && !others.contains(name) {
            #expect(DocumentLine.commands[name] != nil, "\(name)")
        }
        #expect(Set(DocumentLine.commands.keys).isSubset(of: names))
    }

    // MARK: - Shells

    /// What bash lists for a command line that is typed up to its end.
    private func bash(_ words: [String], line: String? = nil) throws -> [String] {
        let list = words.map { "'" + $0.replacing("'", with: "'\\''") + "'" }.joined(separator: " ")
        let line = (line ?? words.joined(separator: " ")).replacing("'", with: "'\\''")
        return try shell.output(
            """
            bash --norc -c 'source <(quire completion bash); COMP_LINE=$1; COMP_POINT=${#1}; shift
            COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _quire quire "${!#}" "${@: -2:1}"; printf "%s\\n" "${COMPREPLY[@]}"' \
            bash '\(line)' \(list)
            """
        ).split(separator: "\n").map(String.init)
    }

    @Test func bashCompletesFromItsScript() throws {
        try makeLibrary()
        _ = try shell.output(
            "quire versions keep L.quire --name 'it is \"$x\"'; cp -r L.quire 'My L.quire'")
        #expect(try bash(["quire", "fet"]) == ["fetch"])
        #expect(try bash(["quire", "fetch", "L.quire", "B"]) == ["Book"])
        #expect(try bash(["quire", "fetch", "My\\ L.quire", "B"]) == ["Book"])
        #expect(
            try bash(["quire", "fetch", "L.quire", "Book", "--where", "'year < 1 AND ti"]) == [
                "year < 1 AND title"
            ])
        #expect(
            try bash(["quire", "versions", "restore", "L.quire", "it"]) == [#"it\ is\ \"\$x\""#])
        #expect(
            try bash(["quire", "versions", "restore", "L.quire", "\"it"]) == [#"it is \"\$x\""#])
    }

    /// bash takes `=` for a word of its own, and replaces only what follows.
    @Test func bashCompletesAfterEqualSigns() throws {
        try makeLibrary()
        let before = ["quire", "set", "L.quire", "Book/p1", "author", "="]
        #expect(
            try bash(before + ["Au"], line: "quire set L.quire Book/p1 author=Au") == ["Author/"])
        #expect(try bash(before, line: "quire set L.quire Book/p1 author=") == ["Author/"])
        #expect(
            try bash(["quire", "fetch", "--format", "=", "js"], line: "quire fetch --format=js")
                == ["json", "jsonl"])
    }

    private nonisolated static func has(_ program: String) -> Bool {
        ["/usr/bin/", "/bin/", "/usr/local/bin/"].contains {
            FileManager.default.isExecutableFile(atPath: $0 + program)
        }
    }

    @Test(.enabled("fish is not installed") { Self.has("fish") })
    func fishCompletesFromItsScript() throws {
        try makeLibrary()
        let complete = { (line: String) in
            try self.shell.output(
                "HOME=$PWD fish --no-config -c \"quire completion fish | source; complete -C '\(line)'\""
            )
        }
        #expect(try complete("quire fet") == "fetch\t\(FetchVerb.abstract)\n")
        #expect(try complete("quire set L.quire Book/") == "Book/p1\tEmma\nBook/p2\tPersuasion\n")
        #expect(try complete("quire info L").hasPrefix("L.quire/"))
        #expect(try complete("quire fetch --format=js") == "--format=json\n--format=jsonl\n")
    }

    /// In a terminal, because zsh completes only there. A key of the test writes what is on the line into a file.
    @Test(.enabled("zsh is not installed") { Self.has("zsh") })
    func zshCompletesFromItsScript() throws {
        try makeLibrary()
        let complete = { (line: String) in
            try self.shell.output(
                """
                rm -f line; mkdir -p functions; quire completion zsh > functions/_quire
                cat > complete.zsh <<'END'
                zmodload zsh/zpty zsh/zselect
                zpty shell env HOME=$PWD TERM=dumb zsh -f -i
                zpty -w shell 'fpath=($PWD/functions $fpath); autoload -U compinit; compinit -u -D'
                zpty -w shell 'show() { print -r -- "[$BUFFER]" > line }; zle -N show; bindkey "^Xs" show'
                zpty -w -n shell "$1"$'\\t\\C-Xs'
                repeat 2000; do
                    [[ -s line ]] && break
                    zpty -r -t shell seen || zselect -t 1
                done
                cat line
                END
                zsh -f complete.zsh '\(line)'
                """)
        }
        #expect(try complete("quire fet") == "[quire fetch ]\n")
        #expect(
            try complete("quire set L.quire Book/p1 rat") == "[quire set L.quire Book/p1 rating=]\n"
        )
        #expect(
            try complete("quire set L.quire Book/p2 author=Au")
                == "[quire set L.quire Book/p2 author=Author/]\n")
        #expect(try complete("quire info L") == "[quire info L.quire/]\n")
        #expect(try complete(#"quire fetch "L.quire" Bo"#) == "[quire fetch \"L.quire\" Book ]\n")
    }
}
