import Dispatch
public import Foundation
import Quire

/// The write lock of a package, held by one owner in one process.
///
/// It is a kernel lock on the open file `.lock`, which is released whenever the process ends, so there are no stale locks. The
/// file is removed with the lock. What its text says is for people only; that there is one shows that an owner was killed.
final class DocumentLock: Sendable {
    private let file: OpenFile
    private let layout: Lock<DocumentPackageLayout>
    /// Whether a process that had the lock did not release it: it was killed, or the machine stopped.
    let wasLeft: Bool
    private let generations = Lock<Set<Int>>([])

    private init(file: OpenFile, layout: DocumentPackageLayout, wasLeft: Bool) {
        self.file = file
        self.layout = Lock(layout)
        self.wasLeft = wasLeft
    }

    deinit { release() }

    /// Takes the lock.
    ///
    /// - Throws: ``QuireError`` with code `locked`, and a message that names the owner; `invalidFormat` if the file has other hard
    ///   links, and therefore belongs to the user.
    static func acquire(for layout: DocumentPackageLayout) throws -> DocumentLock {
        // A former owner may have removed the file between our opening and locking it; then it is not the lock.
        for _ in 0..<100 {
            let file = try OpenFile.open(
                layout.lock, beneath: layout.path, for: .updatingOrCreating)
            guard try file.lockExclusively() else { throw try locked(layout, file) }
            guard let current = try FileSystem.information(at: layout.lock, beneath: layout.path),
                try current.isSameFile(as: file.information())
            else { continue }
            let information = try file.information()
            if information.linkCount > 1 { throw hasOtherNames(layout) }
            let lock = DocumentLock(file: file, layout: layout, wasLeft: information.size > 0)
            // A full disk must not prevent opening a document.
            try? file.setSize(0)
            try? file.write(Data(DocumentOwner.current(since: Date()).text.utf8))
            return lock
        }
        throw QuireError(
            .locked,
            "“\(layout.path)” could not be locked, because other processes keep opening and closing it; try again.",
            file: layout.path)
    }

    /// Takes the lock, and waits if another owner has it. The timeout starts when that is detected.
    ///
    /// The kernel reports when the file is closed, also when its owner is killed. The lock is then tested on a file opened for
    /// reading: a failed attempt to take it would close a writable file, and wake all waiting processes.
    ///
    /// - Throws: ``QuireError`` with code `locked` after the timeout.
    static func acquire(
        for layout: DocumentPackageLayout, waiting: LockWait?
    ) throws -> DocumentLock {
        guard let waiting, waiting.timeout > .zero else { return try acquire(for: layout) }
        var deadline: ContinuousClock.Instant?
        while true {
            let failure: QuireError
            do {
                return try acquire(for: layout)
            } catch let error as QuireError where error.code == .locked {
                failure = error
            }
            while let file = try openedForReading(layout) {
                // Watched before the lock is tested, so that no event is missed.
                let changed = DispatchSemaphore(value: 0)
                let subscription = try? FileEvents.shared.watch(file, for: [.written, .itself]) {
                    _ in changed.signal()
                }
                defer { subscription?.cancel() }
                guard try file.isLockedByAnother() else { break }
                if deadline == nil { waiting.willWait?(owner(in: file)) }
                let end = deadline ?? .now + waiting.timeout
                deadline = end
                let rest = end - .now
                if rest <= .zero { throw failure }
                // The kernel does not report changes by another machine.
                _ = changed.wait(timeout: .now() + min(rest, .seconds(1)).dispatchInterval)
            }
            if let deadline, ContinuousClock.now >= deadline { throw failure }
        }
    }

    private static func openedForReading(_ layout: DocumentPackageLayout) throws -> OpenFile? {
        do {
            return try OpenFile.open(layout.lock, beneath: layout.path, for: .reading)
        } catch let error as QuireError where error.code == .notFound {
            return nil
        }
    }

    /// Releases the lock. Calling it twice does nothing.
    func release() {
        guard file.descriptor >= 0 else { return }
        // While we still have the lock: afterwards it could be another owner's file.
        let layout = layout.withLock { $0 }
        if isInPlace {
            _ = try? FileSystem.removeFileIfPresent(layout.lock, beneath: layout.path)
        }
        file.close()
    }

    // MARK: Additional content

    /// The generations of additional content that have been the document's since the lock was taken.
    var ownGenerations: Set<Int> { generations.withLock { $0 } }

    /// Records a generation of additional content that is, or is about to be, the document's.
    func add(generation: Int?) {
        if let generation { generations.withLock { _ = $0.insert(generation) } }
    }

    // MARK: Packages that are moved

    /// Called when the package, and the lock in it, has another path.
    func move(to layout: DocumentPackageLayout) { self.layout.withLock { $0 = layout } }

    /// Whether the package is still at its path: the lock is found there.
    var isInPlace: Bool {
        let layout = layout.withLock { $0 }
        guard
            let found =
                (try? FileSystem.information(at: layout.lock, beneath: layout.path)) ?? nil,
            let own = try? file.information()
        else { return false }
        return found.isSameFile(as: own)
    }

    /// The error of a lock file with other hard links: writing to it would change a file outside the package.
    private static func hasOtherNames(_ layout: DocumentPackageLayout) -> QuireError {
        QuireError(
            .invalidFormat,
            "“\(layout.lock)” has another hard link, which would be overwritten too; remove "
                + "“\(FileSystem.name(of: layout.lock))” from the document, and try again.",
            file: layout.lock)
    }

    private static func locked(_ layout: DocumentPackageLayout, _ file: OpenFile) throws
        -> QuireError
    {
        QuireError(
            .locked,
            "“\(layout.path)” is open for writing\(owner(in: file).phrase); "
                + "close it there, or open it for reading only.",
            file: layout.path)
    }

    /// The owner that holds the lock, if any. Takes no lock.
    static func owner(of layout: DocumentPackageLayout) throws -> DocumentOwner? {
        guard let file = try openedForReading(layout) else { return nil }
        return try file.isLockedByAnother() ? owner(in: file) : nil
    }

    private static func owner(in file: OpenFile) -> DocumentOwner {
        withUnsafeTemporaryAllocation(byteCount: 4096, alignment: 1) { buffer in
            let count = (try? file.read(into: buffer)) ?? 0
            let owner = DocumentOwner(text: String(decoding: buffer[..<count], as: UTF8.self))
            // If this owner could not write its own text, that of a former one remains.
            return owner.isKnownToBeGone ? DocumentOwner() : owner
        }
    }
}

// MARK: - Waiting

/// How to wait for opening a package for writing while another owner has it open.
///
/// ```swift
/// let wait = LockWait(timeout: .seconds(5)) { owner in print("Waiting for \(owner.processName ?? "another process")…") }
/// let package = try DocumentPackage.open(at: path, waiting: wait)
/// ```
public struct LockWait: Sendable {
    /// The maximum time to wait.
    public var timeout: Duration
    /// Called once if there is an owner to wait for, with that owner, on the waiting thread.
    public var willWait: (@Sendable (DocumentOwner) -> Void)?

    /// Waits at most for a timeout.
    public init(timeout: Duration, willWait: (@Sendable (DocumentOwner) -> Void)? = nil) {
        self.timeout = timeout
        self.willWait = willWait
    }
}

// MARK: - The owner

/// The owner that has a package open for writing, as recorded in its lock file.
///
/// The lock itself is the kernel's, and is never stale. The text of the file is for people: another program may have written
/// anything, so nothing depends on it, and missing values are `nil`.
public struct DocumentOwner: Sendable, Hashable {
    /// The process identifier on its machine.
    public var processIdentifier: Int32?
    /// The process's name.
    public var processName: String?
    /// The machine's name.
    public var hostName: String?
    /// When it opened the package.
    public var since: Date?
    /// The boot identifier of the machine.
    public var bootIdentifier: String?
    /// When the process was started, in clock ticks since boot; with ``bootIdentifier`` and ``processIdentifier`` it identifies a
    /// process uniquely.
    public var processStart: UInt64?

    /// Whether the owner is this process.
    public var isThisProcess: Bool {
        self == DocumentOwner.current(since: since) && processIdentifier != nil
    }

    /// The owner, to continue “… is open for writing”: `by process 123 (quire) on host`; empty if nothing is known.
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

    /// The text of the lock file: a line for each value, with its key, a space, and the value.
    var text: String {
        let seconds = since.map { String(Int64($0.timeIntervalSince1970)) }
        let lines: [(String, String?)] = [
            (Self.keys.process, processIdentifier.map { String($0) }),
            (Self.keys.name, processName), (Self.keys.host, hostName), (Self.keys.since, seconds),
            (Self.keys.boot, bootIdentifier), (Self.keys.start, processStart.map { String($0) }),
        ]
        return lines.compactMap { key, value in value.map { "\(key) \(Self.line($0))\n" } }.joined()
    }

    /// Parses the text of a lock file, whatever it contains.
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

    /// The text on a single printable line.
    private static func line(_ text: some StringProtocol) -> String {
        String(
            text.unicodeScalars.filter { $0.properties.generalCategory != .control }.prefix(80)
                .map(Character.init))
    }

    private static let thisBoot = (try? FileSystem.contents(of: "/proc/sys/kernel/random/boot_id"))
        .map { line(String(decoding: $0, as: UTF8.self)) }

    /// Field 22 of `/proc/self/stat`. The process's name, field 2, is in parentheses and may contain parentheses.
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

    /// Whether it was a process of this machine that has ended, or that ran before the last boot. Processes of other machines are
    /// unknown.
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
    /// The owner that has a package open for writing, if any. Takes no lock and leaves no trace.
    ///
    /// Readers are not known, because they leave no trace either.
    ///
    /// - Throws: ``QuireError`` with code `notFound` or `invalidFormat` if it is not a package.
    public static func owner(at path: String) throws -> DocumentOwner? {
        let layout = DocumentPackageLayout(path: path)
        try checkIsPackage(layout)
        return try DocumentLock.owner(of: layout)
    }
}

// MARK: - Asking the owner

/// The result of asking another process to save a package.
public enum OwnerReply: Sendable, Hashable {
    /// It is not open for writing, or only in this process, so no other process has unsaved changes.
    case nobody
    /// It has been saved.
    case saved
    /// Its owner cannot be asked, because it is on another machine, belongs to another user, or does not listen. The package on
    /// disk is the last save.
    case unreachable
}

extension DocumentPackage {
    /// Asks the process that has a package open for writing to save it, and waits until it has.
    ///
    /// ``FileCoordinator`` does this before a document is read. Do not call it on the main queue.
    ///
    /// - Parameters:
    ///   - path: The package's path.
    ///   - timeout: The maximum time to wait for the answer.
    /// - Throws: ``QuireError`` with code `timedOut` if the process does not answer, with the code of the owner's
    ///   error if saving failed, or `inputOutput`.
    @discardableResult
    public static func askOwnerToSave(
        at path: String, timeout: Duration = .seconds(10)
    ) throws -> OwnerReply {
        let layout = DocumentPackageLayout(path: path)
        guard layout.isPackage, let owner = try DocumentLock.owner(of: layout),
            !owner.isThisProcess
        else { return .nobody }
        switch try PackageListener.ask("save", aboutPackageAt: layout.path, within: timeout) {
        case .line("saved"): return .saved
        case .line(let line) where line.hasPrefix("failed "):
            let parts = line.split(separator: " ", maxSplits: 2).map(String.init)
            throw QuireError(
                .init(rawValue: parts.count > 1 ? parts[1] : "inputOutput"),
                "“\(layout.path)” could not be saved\(owner.phrase), which has it open: "
                    + (parts.count > 2 ? parts[2] : "unknown reason."),
                file: layout.path)
        case .timeout:
            throw QuireError(
                .timedOut,
                "“\(layout.path)” is open for writing\(owner.phrase), which did not answer a request to save it "
                    + "within \(timeout).",
                file: layout.path)
        case .line, .nothing, nil: return .unreachable
        }
    }

    /// Whether the process that has a package open for writing has unsaved changes of it; `nil` if it cannot be asked.
    public static func ownerHasUnsavedChanges(
        at path: String, timeout: Duration = .seconds(2)
    ) -> Bool? {
        switch try? PackageListener.ask("status", aboutPackageAt: path, within: timeout) {
        case .line("unsaved"): true
        case .line("clean"): false
        default: nil
        }
    }
}
