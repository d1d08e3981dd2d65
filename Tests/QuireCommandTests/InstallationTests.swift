import ArgumentParser
import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireCommand

/// What `make install` installs, and the help that its manual pages are made of.
@MainActor @Suite struct InstallationTests {
    let shell: CommandShell

    init() throws { shell = try CommandShell() }

    private func install() throws {
        _ = try shell.output(#""$ROOT/.ci/install" "$(command -v quire)" "$PWD/root" /usr"#)
    }

    // MARK: - Installing

    /// Without variables, from another folder: nothing but the installed files is found.
    @Test func installedCommandNeedsNoOtherFiles() throws {
        try install()
        let output = try shell.output(
            """
            mkdir -p empty && cd empty
            run() { env -i HOME="$PWD" ../root/usr/bin/quire "$@"; }
            run templates --csv | cut -d, -f1 | head -2; run new L.quire --template Notes; run content list L.quire
            """)
        #expect(
            output == """
                name
                Blank
                Created L.quire from the template Notes: 3 entities, 2 objects.
                file       bytes
                Style.css    236

                """)
    }

    @Test func installedFilesAreRemovedAgain() throws {
        try install()
        let files = try shell.output("cd root && find . -type f | sort")
        for file in [
            "bin/quire", "share/man/man1/quire.1", "share/man/man1/quire-fetch.1",
            "share/man/man7/quire-predicates.7", "share/man/man7/quire-environment.7",
            "share/bash-completion/completions/quire", "share/zsh/site-functions/_quire",
            "share/fish/vendor_completions.d/quire.fish", "lib/quire/libswiftCore.so",
        ] {
            #expect(files.contains("./usr/\(file)\n"))
        }
        #expect(
            try shell.output(
                "source root/usr/share/bash-completion/completions/quire && complete -p quire"
            ).contains("_quire"))
        #expect(
            try shell.output("\"$ROOT/.ci/install\" --remove root /usr; find root -type f") == "")
    }

    // MARK: - Manual pages

    @Test func everyCommandHasAPage() throws {
        let pages = try ManualPage.all()
        let commands = QuireCommand.configuration.subcommands.filter {
            $0.configuration.shouldDisplay
        }
        #expect(
            Set(pages.map(\.name))
                == Set(
                    ["quire"] + commands.map { "quire-\($0._commandName)" }
                        + HelpTopic.all.map(\.pageName)))
    }

    /// The pages have examples as they are typed, and every option.
    @Test func pagesHaveExamplesAndOptions() throws {
        let page = try #require(try ManualPage.all().first { $0.name == "quire-fetch" })
        let lines = page.text.split(separator: "\n").map(String.init)
        #expect(
            lines.contains(
                #"  quire fetch Library.quire Book \-\-where \(aqyear < 1800\(aq \-\-sort \-year"#))
        for argument in try CommandDescription(OnDocument<FetchVerb>.self).arguments ?? [] {
            guard let name = argument.preferredName?.text else { continue }
            #expect(page.text.contains("\\fB\(name.replacing("-", with: "\\-"))\\fR"), "\(name)")
        }
        #expect(lines.contains(".SH KEYS"))
    }

    private nonisolated static func has(_ program: String) -> Bool {
        ["/usr/bin/", "/bin/", "/usr/local/bin/"].contains {
            FileManager.default.isExecutableFile(atPath: $0 + program)
        }
    }

    @Test(.enabled("mandoc is not installed") { Self.has("mandoc") })
    func pagesAreWellFormed() throws {
        // Pages have no date, so that they are the same whenever they are made.
        let problems = try shell.output(
            "mkdir pages && quire manual pages && { mandoc -T lint -W warning pages/* | grep -v 'missing date' || true; }"
        )
        #expect(problems == "")
    }

    // MARK: - Help

    @Test func examplesOfHelpAreWholeLines() throws {
        let help = try shell.output("COLUMNS=60 quire fetch --help")
        let examples = try #require(HelpText.parts(of: FetchVerb.discussion).examples)
        #expect(help.contains("\n" + HelpText.examplesHeading + examples + "\n\nUSAGE: "))
        let other = help.replacing(examples, with: "").split(separator: "\n")
        #expect(other.allSatisfy { $0.count <= 60 }, "\(other.filter { $0.count > 60 })")
    }

    @Test func usageIsBrokenOutsideOfBrackets() throws {
        let help = try shell.output("COLUMNS=60 quire extract --help")
        #expect(
            help.contains(
                """
                USAGE: quire extract <ARCHIVE> <PATH> [--keep-damage]
                       [--json] [--key-file <FILE>] [--passphrase-fd <N>]
                """))
    }

    @Test func optionsForKeysAreTheLastSection() throws {
        let help = try shell.output("quire fetch --help")
        let sections = help.split(separator: "\n").filter {
            $0.hasSuffix(":") && !$0.hasPrefix(" ")
        }
        #expect(sections == ["EXAMPLES:", "ARGUMENTS:", "OPTIONS:", "KEYS:"])
        func check(_ command: CommandDescription) {
            for argument in command.arguments ?? []
            where argument.preferredName?.text == "--key-file" {
                #expect(argument.sectionTitle == HelpText.keys, "\(command.commandName)")
            }
            command.subcommands?.forEach(check)
        }
        check(try CommandDescription(QuireCommand.self))
    }

    @Test(arguments: ["predicates", "environment"])
    func topicsFitATerminal(_ name: String) throws {
        let text = try shell.output("quire help \(name)")
        #expect(text.split(separator: "\n").allSatisfy { $0.count <= 80 })
    }

    /// Those of the manual are conditions on the books of the template Library.
    @Test func examplesOfPredicatesAreValid() async throws {
        _ = try shell.output("quire new L.quire --template Library")
        let document = try await DocumentSession.open(
            shell.path("L.quire"), modelPath: nil, access: .read)
        for example in HelpTopic.examples {
            let request = FetchRequest("Book", predicate: try QueryPredicate(format: example))
            #expect(throws: Never.self, "\(example)") { try document.context.count(for: request) }
        }
        try await document.close()
    }
}
