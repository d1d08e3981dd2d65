/// How opening a package for writing waits while another owner has it open.
///
/// ```swift
/// let wait = LockWait(timeout: .seconds(5)) { owner in print("Waiting for \(owner.processName ?? "another process")…") }
/// let package = try DocumentPackage.open(at: path, waiting: wait)
/// ```
public struct LockWait: Sendable {
    /// How long to wait at most.
    public var timeout: Duration
    /// Called once if there is somebody to wait for, with who that is, on the thread that waits.
    public var willWait: (@Sendable (DocumentOwner) -> Void)?

    /// Waits for a time at most.
    public init(timeout: Duration, willWait: (@Sendable (DocumentOwner) -> Void)? = nil) {
        self.timeout = timeout
        self.willWait = willWait
    }
}
