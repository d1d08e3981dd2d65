public import Foundation
import Quire

/// Who has a package open for writing, as its lock file says.
///
/// The lock itself is the kernel's and is never stale. What the file says beside it is for people: a program that is not
/// Quire may have written anything, so nothing depends on it, and whatever it does not say is `nil`.
public struct DocumentOwner: Sendable, Hashable {
    /// The process's number on its machine.
    public var processIdentifier: Int32?
    /// The process's name.
    public var processName: String?
    /// The machine's name.
    public var hostName: String?
    /// Since when it has the package open.
    public var since: Date?
    /// Tells one start of a machine from another, as Linux names it.
    public var bootIdentifier: String?
    /// When the process was started, in clock ticks since the machine was; with ``bootIdentifier`` and
    /// ``processIdentifier`` it names one process among all that ever were.
    public var processStart: UInt64?

    /// Whether the owner is this very process.
    public var isThisProcess: Bool {
        self == DocumentOwner.current(since: since) && processIdentifier != nil
    }

    /// Who it is, to continue “… is open for writing”: `by process 123 (quire) on host`; empty if nothing is known.
    package var phrase: String {
        guard let processIdentifier else { return "" }
        let name = processName.map { " (\($0))" } ?? ""
        let host = hostName.map { " on \($0)" } ?? ""
        return " by process \(processIdentifier)\(name)\(host)"
    }
}

extension DocumentOwner {
    private static let keys = (
        process: "process", name: "name", host: "host", since: "since", boot: "boot", start: "start"
    )

    /// This process.
    static func current(since: Date?) -> DocumentOwner {
        let process = ProcessInfo.processInfo
        return DocumentOwner(
            processIdentifier: process.processIdentifier, processName: process.processName,
            hostName: process.hostName, since: since, bootIdentifier: thisBoot,
            processStart: thisStart)
    }

    /// What the lock file says: a line for each thing, its key, a space, and the rest.
    var text: String {
        let seconds = since.map { String(Int64($0.timeIntervalSince1970)) }
        let lines: [(String, String?)] = [
            (Self.keys.process, processIdentifier.map { String($0) }),
            (Self.keys.name, processName), (Self.keys.host, hostName), (Self.keys.since, seconds),
            (Self.keys.boot, bootIdentifier), (Self.keys.start, processStart.map { String($0) }),
        ]
        return lines.compactMap { key, value in value.map { "\(key) \(Self.line($0))\n" } }.joined()
    }

    /// Reads what a lock file says, be it anything.
    init(text: String) {
        for line in text.split(separator: "\n") where line.utf8.count <= 400 {
            guard let space = line.firstIndex(of: " ") else { continue }
            let value = Self.line(line[line.index(after: space)...])
            switch line[..<space] {
            case Self.keys.process: processIdentifier = Int32(value).flatMap { $0 > 0 ? $0 : nil }
            case Self.keys.name: processName = value
            case Self.keys.host: hostName = value
            case Self.keys.since:
                // Until the year 9999.
                since = Int64(value).flatMap { (0...253_402_300_799).contains($0) ? $0 : nil }
                    .map { Date(timeIntervalSince1970: Double($0)) }
            case Self.keys.boot: bootIdentifier = value
            case Self.keys.start: processStart = UInt64(value)
            default: break
            }
        }
    }

    /// Something that can be shown in a line.
    private static func line(_ text: some StringProtocol) -> String {
        String(
            text.unicodeScalars.filter { $0.properties.generalCategory != .control }.prefix(80)
                .map(Character.init))
    }

    private static let thisBoot = (try? FileSystem.contents(of: "/proc/sys/kernel/random/boot_id"))
        .map { line(String(decoding: $0, as: UTF8.self)) }

    /// Field 22 of `/proc/self/stat`. The process's name, field 2, is in parentheses and may hold any.
    private static let thisStart = start(ofProcess: "self")

    /// When a running process was started.
    private static func start(ofProcess process: String) -> UInt64? {
        (try? FileSystem.contents(of: "/proc/\(process)/stat"))
            .map { String(decoding: $0, as: UTF8.self) }
            .flatMap { text in text.lastIndex(of: ")").map { text[text.index(after: $0)...] } }
            .flatMap { fields in
                let fields = fields.split(separator: " ")
                return fields.count > 19 ? UInt64(fields[19]) : nil
            }
    }

    /// Whether it was a process of this machine that has ended since, or of the machine before it was started anew. Of
    /// others nothing can be told.
    var isKnownToBeGone: Bool {
        guard let bootIdentifier, let thisBoot = Self.thisBoot else { return false }
        if bootIdentifier != thisBoot { return hostName == ProcessInfo.processInfo.hostName }
        guard let processIdentifier, let processStart else { return false }
        guard let start = Self.start(ofProcess: String(processIdentifier)) else {
            // Processes of other users may be hidden in /proc.
            return kill(processIdentifier, 0) != 0 && errno == ESRCH
        }
        return start != processStart
    }
}

extension DocumentPackage {
    /// Who has a package open for writing, or `nil` if nobody has. Takes no lock and leaves no trace.
    ///
    /// Those who only read are not known: they leave no trace either.
    ///
    /// - Throws: ``QuireError`` with code `notFound` or `invalidFormat` if there is no package.
    public static func owner(at path: String) throws -> DocumentOwner? {
        let layout = DocumentPackageLayout(path: path)
        try checkIsPackage(layout)
        return try DocumentLock.owner(of: layout)
    }
}
