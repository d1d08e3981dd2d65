import Foundation
import Quire

/// Asks the user questions on the terminal.
enum Confirmation {
    /// Whether questions can be asked.
    static var isPossible: Bool { isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1 }

    /// Asks a question that yes or no answers.
    ///
    /// - Parameter absent: The answer of an empty line.
    static func ask(_ question: String, default absent: Bool) -> Bool {
        while true {
            Output.writeError(TerminalText.line("\(question) [\(absent ? "Y/n" : "y/N")] "))
            guard let answer = readLine()?.trimmingCharacters(in: .whitespaces).lowercased() else {
                Output.writeError("\n")
                return false
            }
            switch answer {
            case "": return absent
            case "y", "yes": return true
            case "n", "no": return false
            default: continue
            }
        }
    }
}
