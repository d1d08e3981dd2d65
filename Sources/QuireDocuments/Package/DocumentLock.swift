import Dispatch
import Foundation
import Quire

/// The right to write to a package, which one process has, and in that one owner.
///
/// It is a lock on the open file `.lock`, which the kernel drops when the process ends, however it ends: there are
/// no stale locks. What the file says is for people only. The file is removed with the lock.
final class DocumentLock: Sendable {
    private let file: OpenFile
    private let layout: Lock<DocumentPackageLayout>

    private init(file: OpenFile, layout: DocumentPackageLayout) {
        self.file = file
        self.layout = Lock(layout)
    }

    deinit { release() }

    /// Takes the lock.
    ///
    /// - Throws: ``QuireError`` with code `locked`, and a sentence that says who has it; `invalidFormat` if the file has
    ///   other names, and is hence somebody's own.
    static func acquire(for layout: DocumentPackageLayout) throws -> DocumentLock {
        // A former owner may have removed the file between our opening and locking it; then it is not the lock.
        for _ in 0..<100 {
            let file = try OpenFile.open(
                layout.lock, beneath: layout.path, for: .updatingOrCreating)
            guard try file.lockExclusively() else { throw try locked(layout, file) }
            guard let current = try FileSystem.information(at: layout.lock, beneath: layout.path),
                try current.isSameFile(as: file.information())
            else { continue }
            if try file.information().linkCount > 1 { throw hasOtherNames(layout) }
            let lock = DocumentLock(file: file, layout: layout)
            // A full disk is no reason not to open a document.
            try? file.setSize(0)
            try? file.write(Data(DocumentOwner.current(since: Date()).text.utf8))
            return lock
        }
        throw QuireError(
            .locked,
            "“\(layout.path)” is being opened and closed by others all the time; try again.",
            subject: .init(file: layout.path))
    }

    /// Takes the lock, and waits if another owner has it. The time runs from when that was found out.
    ///
    /// The kernel tells when the file is closed, as it is also when its owner is killed. Whether it is locked is asked by an
    /// opening for reading: to try to take the lock, which closes the file again if it fails, would wake all who wait.
    ///
    /// - Throws: ``QuireError`` with code `locked` when the time is over.
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
                // Before it is asked whether it is locked, so that no event is missed.
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
                // The kernel does not tell what happens on another machine.
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

    /// Gives the lock up. Doing so twice does nothing.
    func release() {
        guard file.descriptor >= 0 else { return }
        // While we still have the lock: afterwards it could be another owner's file.
        let layout = layout.withLock { $0 }
        if isInPlace {
            _ = try? FileSystem.removeFileIfPresent(layout.lock, beneath: layout.path)
        }
        file.close()
    }

    // MARK: Packages that are moved

    /// The package has another path now, which its lock moves to with it.
    func move(to layout: DocumentPackageLayout) { self.layout.withLock { $0 = layout } }

    /// Whether the package is where it was: its lock is found under its path.
    var isInPlace: Bool {
        let layout = layout.withLock { $0 }
        guard
            let found =
                (try? FileSystem.information(at: layout.lock, beneath: layout.path)) ?? nil,
            let own = try? file.information()
        else { return false }
        return found.isSameFile(as: own)
    }

    /// What is written to it would be in a file that is no part of the package.
    private static func hasOtherNames(_ layout: DocumentPackageLayout) -> QuireError {
        QuireError(
            .invalidFormat,
            "“\(layout.lock)” is a file that has another name too, and would be overwritten under that as well; remove "
                + "“\(FileSystem.name(of: layout.lock))” from the document, which leaves the other name alone, and try again.",
            subject: .init(file: layout.lock))
    }

    private static func locked(_ layout: DocumentPackageLayout, _ file: OpenFile) throws
        -> QuireError
    {
        QuireError(
            .locked,
            "“\(layout.path)” is open for writing\(owner(in: file).phrase); "
                + "close it there, or open it for reading only.",
            subject: .init(file: layout.path))
    }

    /// Who has the lock, or `nil` if nobody has. Takes no lock.
    static func owner(of layout: DocumentPackageLayout) throws -> DocumentOwner? {
        do {
            let file = try OpenFile.open(layout.lock, beneath: layout.path, for: .reading)
            return try file.isLockedByAnother() ? owner(in: file) : nil
        } catch let error as QuireError where error.code == .notFound {
            return nil
        }
    }

    private static func owner(in file: OpenFile) -> DocumentOwner {
        withUnsafeTemporaryAllocation(byteCount: 4096, alignment: 1) { buffer in
            let count = (try? file.read(into: buffer)) ?? 0
            let owner = DocumentOwner(text: String(decoding: buffer[..<count], as: UTF8.self))
            // What a former owner wrote, if this one could not, misleads.
            return owner.isKnownToBeGone ? DocumentOwner() : owner
        }
    }
}
