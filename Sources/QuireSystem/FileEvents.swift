internal import CLinux
package import Dispatch
internal import Foundation

/// Kernel notifications of changes of files and folders: the owner of the process's inotify queue.
///
/// There is one queue, one dispatch source and one timer for the process, however much is watched. The queue is opened
/// when something is watched for the first time, and stays.
///
/// Rules
/// =====
///
/// - An event says that something has happened, not what the state is: handlers look for themselves. Events may come that
///   carry nothing new, and after a subscription has been cancelled one more may come.
/// - When the kernel drops events because too many come at once, every subscriber gets ``Kinds/overflow``, and has to look
///   at everything.
/// - Handlers are called one at a time, on a queue of their own; they must be quick.
/// - Where the kernel has no events (other machines write to the file system, or the user watches too much already),
///   ``tick(_:)`` says regularly that it is time to look.
package final class FileEvents: Sendable {
    /// The kinds of an event.
    package struct Kinds: OptionSet, Sendable {
        package let rawValue: UInt32

        package init(rawValue: UInt32) { self.rawValue = rawValue }

        /// A file in the folder was written to.
        package static let modified = Kinds(rawValue: UInt32(IN_MODIFY))
        /// A file in the folder that was open for writing was closed.
        package static let written = Kinds(rawValue: UInt32(IN_CLOSE_WRITE))
        /// A name came into the folder, or left it.
        package static let names = Kinds(
            rawValue: UInt32(IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO))
        /// The watched item was renamed or removed, or its file system was unmounted.
        package static let itself = Kinds(
            rawValue: UInt32(IN_MOVE_SELF | IN_DELETE_SELF | IN_UNMOUNT))
        /// Events were lost.
        package static let overflow = Kinds(rawValue: UInt32(IN_Q_OVERFLOW))
        /// The subscription has ended, because what was watched does not exist any more.
        package static let ended = Kinds(rawValue: UInt32(IN_IGNORED))
    }

    /// Something that happened.
    package struct Event: Sendable {
        /// The kinds of change.
        package var kinds: Kinds
        /// The name in the watched folder, or empty if it happened to what is watched itself.
        package var name: String
    }

    /// Gets events.
    package typealias Handler = @Sendable (Event) -> Void

    /// The process's.
    package static let shared = FileEvents()

    private struct Subscriber {
        var kinds: Kinds
        var handler: Handler
    }

    private struct State {
        /// The inotify queue, once something is watched.
        var descriptor: Int32 = -1
        /// By the kernel's number, which it does not give again: the subscriptions of the same file.
        var watches: [Int32: [UInt64: Subscriber]] = [:]
        var tickers: [UInt64: @Sendable () -> Void] = [:]
        /// Counts the runs of the timer, so that one that was stopped does not go on.
        var timerRun = 0
        var lastNumber: UInt64 = 0

        mutating func nextNumber() -> UInt64 {
            lastNumber += 1
            return lastNumber
        }
    }

    private let state = Lock(State())
    private let queue = DispatchQueue(label: "quire.file-events")
    private let tickInterval: DispatchTimeInterval
    private let watchLimit: Int

    /// For tests; use ``shared`` otherwise.
    package init(tickInterval: DispatchTimeInterval = .seconds(2), watchLimit: Int = .max) {
        self.tickInterval = tickInterval
        self.watchLimit = watchLimit
    }

    // MARK: Subscribing

    /// Asks for events of an open file or folder, wherever it is by now.
    ///
    /// - Throws: As ``watch(path:for:_:)``.
    package func watch(
        _ file: OpenFile, for kinds: Kinds, _ handler: @escaping Handler
    ) throws -> FileEventSubscription {
        // Leads to the file itself, also when its name is another's by now.
        try watch(
            path: "/proc/self/fd/\(file.descriptor)", reportedAs: file.path, for: kinds, handler)
    }

    /// Asks for events of what is at a path now.
    ///
    /// - Throws: ``QuireError`` with code `notFound`, `readOnly` if it may not be read, `outOfSpace` if the user watches as
    ///   much as the system allows, or `inputOutput`.
    package func watch(
        path: String, for kinds: Kinds, _ handler: @escaping Handler
    ) throws -> FileEventSubscription {
        try watch(path: path, reportedAs: path, for: kinds, handler)
    }

    private func watch(
        path: String, reportedAs name: String, for kinds: Kinds, _ handler: @escaping Handler
    ) throws -> FileEventSubscription {
        try state.withLock { state in
            if state.descriptor < 0 {
                let descriptor = quire_inotify_open()
                if descriptor < 0 { throw FileSystem.failure("watch", name) }
                state.descriptor = descriptor
                startReading(descriptor)
            }
            if state.watches.count >= watchLimit {
                throw FileSystem.failure("watch", name, errno: ENOSPC)
            }
            let watch = quire_inotify_add(state.descriptor, path, kinds.rawValue)
            if watch < 0 { throw FileSystem.failure("watch", name) }
            let number = state.nextNumber()
            state.watches[watch, default: [:]][number] = Subscriber(kinds: kinds, handler: handler)
            return FileEventSubscription { [weak self] in self?.remove(number, from: watch) }
        }
    }

    private func remove(_ number: UInt64, from watch: Int32) {
        // Freed after the lock is given back: the handler may hold what subscribes again.
        _ = state.withLock { state in
            let subscriber = state.watches[watch]?.removeValue(forKey: number)
            if state.watches[watch]?.isEmpty == true {
                state.watches[watch] = nil
                inotify_rm_watch(state.descriptor, watch)
            }
            return subscriber
        }
    }

    /// The number of files and folders that are watched, for tests.
    package var watchCount: Int { state.withLock { $0.watches.count } }

    // MARK: Reading

    private func startReading(_ descriptor: Int32) {
        let source = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: queue)
        // Never cancelled, like the queue is never closed.
        source.setEventHandler { [self] in
            withExtendedLifetime(source) { readEvents(descriptor) }
        }
        source.resume()
    }

    private func readEvents(_ descriptor: Int32) {
        withUnsafeTemporaryAllocation(byteCount: 65_536, alignment: 8) { buffer in
            while true {
                let count = read(descriptor, buffer.baseAddress, buffer.count)
                if count < 0 && errno == EINTR { continue }
                guard count > 0 else { return }
                deliver(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            }
        }
    }

    private func deliver(_ bytes: UnsafeRawBufferPointer) {
        let header = MemoryLayout<inotify_event>.size
        var rest = bytes
        while rest.count >= header {
            let watch = rest.loadUnaligned(fromByteOffset: 0, as: Int32.self)
            let mask = rest.loadUnaligned(fromByteOffset: 4, as: UInt32.self)
            let length = Int(rest.loadUnaligned(fromByteOffset: 12, as: UInt32.self))
            guard rest.count >= header + length else { return }
            let name = rest[header..<header + length].prefix { $0 != 0 }
            deliver(
                Event(
                    kinds: Kinds(rawValue: mask), name: String(decoding: name, as: UTF8.self)),
                of: watch)
            rest = UnsafeRawBufferPointer(rebasing: rest[(rest.startIndex + header + length)...])
        }
    }

    private func deliver(_ event: Event, of watch: Int32) {
        let isEnd = event.kinds.contains(.ended)
        let isForAll = event.kinds.contains(.overflow)
        let subscribers = state.withLock { state -> [Subscriber] in
            if isForAll { return state.watches.values.flatMap { $0.values } }
            if isEnd {
                return state.watches.removeValue(forKey: watch).map { Array($0.values) } ?? []
            }
            return state.watches[watch].map { Array($0.values) } ?? []
        }
        for subscriber in subscribers
        where isEnd || isForAll || !subscriber.kinds.isDisjoint(with: event.kinds) {
            subscriber.handler(event)
        }
    }

    /// Tells all subscribers that events were lost, as the kernel does, for tests.
    package func simulateOverflow() {
        queue.async { self.deliver(Event(kinds: .overflow, name: ""), of: -1) }
    }

    // MARK: Ticking

    /// Calls a handler regularly, for changes that the kernel does not report.
    package func tick(_ handler: @escaping @Sendable () -> Void) -> FileEventSubscription {
        let (number, run) = state.withLock { state -> (UInt64, Int?) in
            let number = state.nextNumber()
            state.tickers[number] = handler
            if state.tickers.count > 1 { return (number, nil) }
            state.timerRun += 1
            return (number, state.timerRun)
        }
        if let run { scheduleTick(run) }
        return FileEventSubscription { [weak self] in
            _ = self?.state.withLock { $0.tickers.removeValue(forKey: number) }
        }
    }

    private func scheduleTick(_ run: Int) {
        queue.asyncAfter(deadline: .now() + tickInterval) { [weak self] in self?.tick(run) }
    }

    private func tick(_ run: Int) {
        let handlers = state.withLock { $0.timerRun == run ? Array($0.tickers.values) : [] }
        if handlers.isEmpty { return }
        for handler in handlers { handler() }
        scheduleTick(run)
    }
}

/// Delivers events until it is cancelled or freed.
package final class FileEventSubscription: Sendable {
    private let end: Lock<(@Sendable () -> Void)?>

    init(_ end: @escaping @Sendable () -> Void) { self.end = Lock(end) }

    deinit { cancel() }

    /// Ends it. Calling it twice does nothing.
    package func cancel() {
        let end = end.withLock { end in
            defer { end = nil }
            return end
        }
        end?()
    }
}
