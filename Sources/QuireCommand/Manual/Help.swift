import ArgumentParser
import Foundation

/// A text about more than one command: `quire help TOPIC`, and a page of the manual.
struct HelpTopic: Sendable {
    /// The word that asks for it.
    let name: String
    let summary: String
    let parts: [(heading: String, text: String)]

    static let all = [predicates, environment]

    /// The name of its page.
    var pageName: String { "quire-" + name }

    /// The topic that a command line asks for.
    static func asked(for words: [String]) -> HelpTopic? {
        guard words.count == 2, words[0] == "help" else { return nil }
        return all.first { $0.name == words[1] }
    }

    /// The topic as it is printed.
    var text: String {
        let parts = parts.map { part in
            let lines = part.text.split(separator: "\n", omittingEmptySubsequences: false)
            return ([part.heading] + lines.map { $0.isEmpty ? "" : "  " + $0 }).joined(
                separator: "\n")
        }
        return ([summary.prefix(1).uppercased() + summary.dropFirst() + "."] + parts).joined(
            separator: "\n\n") + "\n"
    }

    // MARK: - Predicates

    private static let predicates = HelpTopic(
        name: "predicates", summary: "the language of conditions",
        parts: [
            (
                "DESCRIPTION",
                """
                --where selects objects and --having selects groups by a condition in the
                predicate format language of Core Data. Quote the condition for the shell,
                and use the other kind of quotation mark for strings inside. Keywords such
                as AND are not case-sensitive; names of properties are.
                """
            ),
            ("EXAMPLES", examples.map { "  " + $0 }.joined(separator: "\n")),
            (
                "COMPARISONS",
                """
                  ==  =           is equal to, or both are missing
                  !=  <>          differs, or one is missing
                  <  <=  >  >=    is less or greater
                  BETWEEN {a, b}  is between a and b, inclusive
                  IN {a, b, c}    is one of the values
                  BEGINSWITH  ENDSWITH  CONTAINS
                  LIKE            matches a pattern: ? is a character, * any number
                  MATCHES         matches a regular expression as a whole
                  MATCHES TEXT    contains the words of a full-text query

                Strings are compared by their bytes. After the operator, [c] ignores case and
                [d] ignores diacritics: name CONTAINS[cd] "bronte".

                A comparison with a missing value is false, except for == and !=.
                """
            ),
            (
                "LOGIC",
                """
                  AND  &&    OR  ||    NOT  !    ( )    TRUEPREDICATE  FALSEPREDICATE

                ANY, ALL or NONE before a comparison tests the objects of a to-many
                relationship: ANY books.year < 1800.
                """
            ),
            (
                "VALUES",
                """
                  title  author.name   a property, also of a related object
                  SELF                 the object itself, such as "Book/p1"
                  "text"  'text'       a string; \\ escapes the next character
                  12  -0.5  1e3  0x1F  a number
                  YES  NO  TRUE  FALSE
                  NULL  NIL            missing
                  {1, 2}               several values

                A string compared with a date, a number, a UUID or an object is converted:
                returnedAt > "2024-01-31". CAST("2024-01-31", "NSDate") converts a string to
                a date anywhere. Write # before a property whose name is a keyword: #in.
                """
            ),
            (
                "EXPRESSIONS",
                """
                  + - * / **   & | ^ << >> ~
                  abs ceiling floor trunc sqrt ln log exp modulus random
                  uppercase lowercase canonical length
                  now
                  TERNARY(condition, a, b)   a or b
                  list[FIRST]  list[LAST]  list[0]  list[SIZE]

                Integers divide as integers: 7 / 2 is 3.
                """
            ),
            (
                "SEVERAL VALUES",
                """
                  books.@count  books.@sum.pages  @avg  @min  @max
                  @distinctUnionOfObjects  @unionOfObjects
                  SUBQUERY(books, $b, $b.year < 1800).@count
                  a UNION b   a INTERSECT b   a MINUS b

                Columns and --having also accept sum, count, min, max, average, median, mode,
                stddev and distinct as functions: --columns 'author.name,count(title) AS n'.
                """
            ),
        ])

    /// Conditions of the template Library, each a line.
    static let examples = [
        #"title == "Emma""#,
        #"author.name BEGINSWITH[c] "jane" AND year < 1816"#,
        #"year BETWEEN {1800, 1820} OR year == NULL"#,
        #"isbn LIKE "978-*" AND NOT title IN {"Emma", "Persuasion"}"#,
        #"ANY loans.returnedAt > "2024-01-31""#,
        #"SUBQUERY(loans, $l, $l.returnedAt == NULL).@count > 0"#,
        #"length(title) < 20 AND pages / 2 > 100"#,
        #"SELF IN {"Book/p1", "Book/p2"}"#,
    ]

    // MARK: - Environment

    private static let environment = HelpTopic(
        name: "environment", summary: "exit codes, environment variables and files",
        parts: [
            (
                "EXIT CODES",
                ExitStatus.allCases.map { "  \($0.rawValue)  \($0.meaning)" }.joined(
                    separator: "\n")
            ),
            (
                "VARIABLES",
                """
                  QUIRE_CONFIG         your defaults file; empty to read no defaults
                  QUIRE_TEMPLATES      the only folder of templates for documents
                  QUIRE_LOG            a level, such as debug: shows the library's log
                  QUIRE_SQL_DEBUG      1 to 4: shows the SQL statements
                  QUIRE_PAGER, PAGER   shows output longer than the screen; empty: none
                  VISUAL, EDITOR       the editor of model edit
                  COLUMNS              the width of help and tables
                  NO_COLOR             no colours
                  CLICOLOR_FORCE       1: colours also in files and pipes
                  XDG_CONFIG_HOME      instead of ~/.config
                  XDG_DATA_HOME        instead of ~/.local/share
                  XDG_STATE_HOME       instead of ~/.local/state
                """
            ),
            (
                "FILES",
                """
                  ~/.config/quire/config          your defaults for options
                  .quirerc                        defaults for the documents beside it
                  ~/.local/share/quire/Templates  your templates for documents
                  ~/.local/state/quire/history    the history of your sessions
                """
            ),
            (
                "DEFAULTS",
                """
                A defaults file has lines of the form name = value; # begins a comment.

                  format = csv                         for --format
                  columns.Book = title,author.name     for --columns, of an entity
                  key-file = ~/keys/library.key        for --key-file

                Options override .quirerc, which overrides your file. The key file is tried
                if no key is specified and none is in the keyring; .quirerc cannot specify
                one. In scripts that read tables, set QUIRE_CONFIG= to read no defaults.
                """
            ),
        ])
}

/// The help of a command: the parser's, with examples that can be copied, and the options that unlock documents after the others.
enum HelpText {
    /// The heading of the examples, which are the end of a discussion.
    static let examplesHeading = "EXAMPLES:\n"
    /// The title of the options that unlock documents.
    static let keys = "Keys"

    /// The examples in a discussion, and the text before them.
    static func parts(of discussion: String) -> (text: String, examples: String?) {
        guard let heading = discussion.firstRange(of: examplesHeading) else {
            return (discussion, nil)
        }
        let text = discussion[..<heading.lowerBound].trimmingCharacters(in: .newlines)
        return (text, String(discussion[heading.upperBound...]))
    }

    /// A message of the parser as it is printed: help in the form of this type, anything else as it is.
    ///
    /// - Parameter words: The command line.
    static func printed(
        _ message: String, for words: [String], of root: any ParsableCommand.Type
    ) -> String {
        let width = StandardStreams.helpWidth
        let names = words.prefix { !$0.hasPrefix("-") }
        let command = CommandCompletion(words: Array(names), current: "", in: root).command
        guard root.helpMessage(for: command, columns: width) == message else {
            return message + "\n"
        }
        var blocks = message.trimmingCharacters(in: .newlines).components(separatedBy: "\n\n")
        if let usage = blocks.firstIndex(where: { $0.hasPrefix("USAGE: ") }) {
            blocks[usage] = wrapped(usage: blocks[usage], to: width)
            let start = blocks.firstIndex { $0.hasPrefix(examplesHeading) }
            if let start, let examples = parts(of: command.configuration.discussion).examples {
                blocks.replaceSubrange(start..<usage, with: [examplesHeading + examples])
            }
        }
        let options = blocks.lastIndex { $0.hasPrefix("OPTIONS:\n") }
        if let options,
            let keys = blocks.firstIndex(where: { $0.hasPrefix(keys.uppercased() + ":\n") }),
            keys < options
        {
            blocks.insert(blocks.remove(at: keys), at: options)
        }
        return blocks.joined(separator: "\n\n") + "\n\n"
    }

    /// A usage line in lines of a width, which are broken outside of brackets.
    private static func wrapped(usage: String, to width: Int) -> String {
        var lines = [""]
        for part in parts(ofUsage: usage) {
            let last = lines[lines.count - 1]
            if last.isEmpty {
                lines[lines.count - 1] = part
            } else if last.count + 1 + part.count <= width {
                lines[lines.count - 1] += " " + part
            } else {
                lines.append(String(repeating: " ", count: 7) + part)
            }
        }
        return lines.joined(separator: "\n")
    }

    /// A usage line, divided at its spaces outside of brackets.
    private static func parts(ofUsage usage: String) -> [String] {
        var depth = 0
        return usage.split { character in
            if "[<".contains(character) { depth += 1 }
            if "]>".contains(character) { depth -= 1 }
            return character == " " && depth <= 0
        }.map(String.init)
    }
}
