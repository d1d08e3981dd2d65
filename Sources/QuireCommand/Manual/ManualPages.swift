import ArgumentParser
import Foundation
import Quire

/// `quire manual FOLDER`, which `make install` calls.
struct ManualCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "manual", abstract: "Writes the manual pages.", shouldDisplay: false)

    @Argument(help: ArgumentHelp("The folder, which must exist.", valueName: "FOLDER"))
    var folder: String

    @Flag(help: "Replace existing pages.")
    var replace = false

    func run() throws {
        for page in try ManualPage.all() {
            let path = FileSystem.path(folder, "\(page.name).\(page.section)")
            let sibling = try TemporarySibling.makeFile(beside: path)
            defer { sibling.remove() }
            try sibling.building {
                try Array(page.text.utf8).withUnsafeBytes { try sibling.file.write($0) }
                try sibling.publishFile(replacing: replace)
            }
        }
    }
}

/// A page of the manual, in the macros of man(7). Its texts are those of the help.
struct ManualPage {
    let name: String
    let section: Int
    /// Its lines.
    private(set) var text: String

    private init(_ name: String, _ section: Int, _ summary: String) {
        self.name = name
        self.section = section
        text = """
            .TH \(Self.escaped(name.uppercased())) \(section) "" "quire \(QuireCommand.configuration.version)" "Quire"

            """
        heading("NAME")
        text += "\(Self.escaped(name)) \\- \(Self.escaped(summary))\n"
    }

    // MARK: - Pages

    /// A page about the program, one about each command, and one about each topic.
    static func all() throws -> [ManualPage] {
        let commands = QuireCommand.configuration.subcommands.filter {
            $0.configuration.shouldDisplay
        }
        return try [program()] + commands.map(page) + HelpTopic.all.map(page)
    }

    private static func program() throws -> ManualPage {
        let configuration = QuireCommand.configuration
        var page = ManualPage("quire", 1, summary(configuration.abstract))
        page.heading("SYNOPSIS")
        page.text += "\\fBquire\\fR \\fICOMMAND\\fR [\\fIARGUMENT\\fR]...\n"
        page.description(configuration)
        page.heading("COMMANDS")
        for group in configuration.groupedSubcommands {
            page.text += ".SS \(escaped(group.name))\n"
            for command in group.subcommands where command.configuration.shouldDisplay {
                page.item(
                    "\\fBquire\\-\(escaped(command._commandName))\\fR(1)",
                    command.configuration.abstract)
            }
        }
        page.options(of: try CommandDescription(QuireCommand.self).arguments ?? [])
        page.examples(configuration)
        page.seeAlso(HelpTopic.all.map { ($0.pageName, 7) })
        return page
    }

    private static func page(about command: any ParsableCommand.Type) throws -> ManualPage {
        let configuration = command.configuration
        let name = "quire " + command._commandName
        let below = configuration.subcommands.filter { $0.configuration.shouldDisplay }
        var page = ManualPage(
            name.replacing(" ", with: "-"), 1, summary(configuration.abstract))
        page.heading("SYNOPSIS")
        let arguments = try CommandDescription(command).arguments ?? []
        let synopses =
            try below.isEmpty
            ? [synopsis(name, arguments)]
            : below.map {
                try synopsis("\(name) \($0._commandName)", CommandDescription($0).arguments ?? [])
            }
        page.text += synopses.joined(separator: "\n.br\n") + "\n"
        page.description(configuration)
        if below.isEmpty {
            page.options(of: arguments)
        } else {
            page.heading("COMMANDS")
        }
        for subcommand in below {
            page.text += ".SS \(escaped("\(name) \(subcommand._commandName)"))\n"
            page.paragraphs(subcommand.configuration.abstract)
            let parts = HelpText.parts(of: subcommand.configuration.discussion)
            page.paragraphs(parts.text)
            let arguments = try CommandDescription(subcommand).arguments ?? []
            for title in [nil, HelpText.keys] {
                for argument in arguments
                where argument.shouldDisplay && argument.sectionTitle == title {
                    page.item(argument)
                }
            }
            if let examples = parts.examples {
                page.text += ".PP\nExamples:\n"
                page.literal(examples)
            }
        }
        page.examples(configuration)
        page.seeAlso([("quire", 1)] + HelpTopic.all.map { ($0.pageName, 7) })
        return page
    }

    private static func page(about topic: HelpTopic) -> ManualPage {
        var page = ManualPage(topic.pageName, 7, topic.summary)
        for part in topic.parts {
            page.heading(part.heading)
            page.paragraphs(part.text)
        }
        page.seeAlso(
            [("quire", 1)] + HelpTopic.all.filter { $0.name != topic.name }.map { ($0.pageName, 7) }
        )
        return page
    }

    /// An abstract as what a page is called: without a full stop, and with a small letter first.
    private static func summary(_ abstract: String) -> String {
        let text = abstract.hasSuffix(".") ? String(abstract.dropLast()) : abstract
        return text.prefix(1).lowercased() + text.dropFirst()
    }

    private static func synopsis(_ name: String, _ arguments: [CommandDescription.Argument])
        -> String
    {
        let words = arguments.filter { $0.kind == .positional && $0.shouldDisplay }.map {
            argument in
            let name =
                "\\fI\(escaped(argument.valueName ?? ""))\\fR" + (argument.isRepeating ? "..." : "")
            return argument.isOptional ? "[\(name)]" : name
        }
        return (["\\fB\(escaped(name))\\fR", "[\\fIOPTION\\fR]..."] + words).joined(separator: " ")
    }

    // MARK: - Parts

    private mutating func heading(_ title: String) { text += ".SH \(Self.escaped(title))\n" }

    private mutating func description(_ configuration: CommandConfiguration) {
        heading("DESCRIPTION")
        paragraphs(configuration.abstract)
        paragraphs(HelpText.parts(of: configuration.discussion).text)
    }

    private mutating func examples(_ configuration: CommandConfiguration) {
        guard let examples = HelpText.parts(of: configuration.discussion).examples else { return }
        heading("EXAMPLES")
        literal(examples)
    }

    /// The arguments, and the options by their sections: those without a title first.
    private mutating func options(of arguments: [CommandDescription.Argument]) {
        let shown = arguments.filter(\.shouldDisplay)
        let titles = shown.map {
            $0.sectionTitle ?? ($0.kind == .positional ? "Arguments" : "Options")
        }
        for title in ["Arguments", "Options"]
            + titles.withoutRepeats.filter({ !["Arguments", "Options"].contains($0) })
        {
            let members = zip(titles, shown).filter { $0.0 == title }.map(\.1)
            if members.isEmpty { continue }
            heading(title.uppercased())
            for argument in members { item(argument) }
        }
    }

    private mutating func item(_ argument: CommandDescription.Argument) {
        var tag = (argument.names ?? []).map { "\\fB\(Self.escaped($0.text))\\fR" }.joined(
            separator: ", ")
        if argument.kind != .flag {
            tag += (tag.isEmpty ? "" : " ") + "\\fI\(Self.escaped(argument.valueName ?? ""))\\fR"
        }
        var sentences = [argument.abstract ?? ""]
        if let values = argument.allValues {
            sentences.append("Values: \(values.joined(separator: ", ")).")
        }
        if let value = argument.defaultValue { sentences.append("Default: \(value).") }
        item(tag, sentences.filter { !$0.isEmpty }.joined(separator: " "))
    }

    private mutating func item(_ tag: String, _ meaning: String) {
        text += ".TP\n\(tag)\n\(Self.line(meaning.isEmpty ? " " : meaning))\n"
    }

    /// Paragraphs; lines that begin with spaces stay lines.
    private mutating func paragraphs(_ paragraphs: String) {
        for paragraph in paragraphs.components(separatedBy: "\n\n") where !paragraph.isEmpty {
            let last = text.split(separator: "\n").last ?? ""
            // A heading begins a paragraph.
            if !last.hasPrefix(".SH ") && !last.hasPrefix(".SS ") { text += ".PP\n" }
            if paragraph.hasPrefix(" ") {
                literal(paragraph)
            } else {
                text += paragraph.split(separator: "\n").map { Self.line(String($0)) + "\n" }
                    .joined()
            }
        }
    }

    private mutating func literal(_ lines: String) {
        text +=
            ".nf\n" + lines.split(separator: "\n").map { Self.line(String($0)) + "\n" }.joined()
            + ".fi\n"
    }

    private mutating func seeAlso(_ pages: [(name: String, section: Int)]) {
        heading("SEE ALSO")
        text +=
            pages.map { "\\fB\(Self.escaped($0.name))\\fR(\($0.section))" }.joined(separator: ",\n")
            + "\n"
    }

    // MARK: - Characters

    /// A line of text, which is no macro.
    private static func line(_ text: String) -> String {
        (text.hasPrefix(".") || text.hasPrefix("'") ? "\\&" : "") + escaped(text)
    }

    /// A text without characters that troff takes for others.
    private static func escaped(_ text: String) -> String {
        text.unicodeScalars.map { scalar in
            switch scalar {
            case "\\": "\\e"
            case "-": "\\-"
            case "'": "\\(aq"
            case "`": "\\(ga"
            case "^": "\\(ha"
            case "~": "\\(ti"
            case "\"": "\\(dq"
            default:
                scalar.isASCII ? String(scalar) : String(format: "\\[u%04X]", scalar.value)
            }
        }.joined()
    }
}
