package import Foundation

/// What underlies the error of a synchronization that failed.
///
/// The kernel may have dropped what was to be written, and reports success the next time all the same. So nobody
/// synchronizes that file again; what was being written is given up, and what it belongs to is opened anew and checked
/// before anything else is written.
package struct FailedSynchronization: Error {
    /// What the system said.
    package let cause: POSIXError

    /// The error to throw.
    static func error(path: String, errno number: Int32) -> QuireError {
        var error = FileSystem.failure("write to disk", path, errno: number)
        if let cause = error.underlying as? POSIXError {
            error.underlying = FailedSynchronization(cause: cause)
        }
        return error
    }
}

extension Error {
    /// Whether a synchronization failed.
    package var isFailedSynchronization: Bool {
        (self as? QuireError)?.underlying is FailedSynchronization
    }
}
