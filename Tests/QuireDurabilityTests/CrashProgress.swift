/// What `QuireCrashWriter` said: how far it came, and hence what may be on disk.
struct CrashProgress {
    /// The saves that each package may stand at; `nil` among them if it may be missing. A package that is not named is
    /// missing.
    var allowed: [String: Set<Int?>] = [:]
    /// Whether all steps were done.
    var isClosed = false
    /// What it said about failures.
    var failures: [String] = []
    /// Whether a signal has ended it.
    var wasEndedBySignal = false
    /// Whether a call was made to fail.
    var wasHindered = false
    /// What it found wrong.
    var wrongs: [String] = []

    init() {}

    /// Reads what was printed, after what was known before.
    init(_ output: String, after earlier: CrashProgress = CrashProgress()) {
        allowed = earlier.allowed
        for line in output.split(separator: "\n") { note(line) }
    }

    /// Takes notice of a line.
    mutating func note(_ line: some StringProtocol) {
        let words = line.split(separator: " ")
        switch words.first {
        case "begin" where words.count == 3:
            allowed[String(words[1]), default: [nil]].insert(Int(words[2]))
        case "end" where words.count == 3: allowed[String(words[1])] = [Int(words[2])]
        case "failed": failures.append(String(line))
        case "wrong:": wrongs.append(String(line))
        case "closed": isClosed = true
        default: break
        }
    }
}
