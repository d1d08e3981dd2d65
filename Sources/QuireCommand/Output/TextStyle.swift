import Foundation

/// The look of a line on a terminal: headings are bold, additions green, removals and errors red.
enum TextStyle: String {
    case bold = "1"
    case red = "31"
    case green = "32"

    /// A text with the codes that a terminal obeys.
    func applied(to text: String) -> String { "\u{1B}[\(rawValue)m\(text)\u{1B}[0m" }

    /// Whether lines that are written to a descriptor have styles: on a terminal, unless `NO_COLOR` is set, and with
    /// `CLICOLOR_FORCE` anywhere.
    static func isUsed(
        on descriptor: Int32,
        environment: [String: String] = ProcessInfo.processInfo.environment
    ) -> Bool {
        let isSet = { (name: String) in environment[name]?.isEmpty == false }
        if isSet("NO_COLOR") { return false }
        if isSet("CLICOLOR_FORCE"), environment["CLICOLOR_FORCE"] != "0" { return true }
        return isatty(descriptor) == 1 && isSet("TERM") && environment["TERM"] != "dumb"
    }
}
