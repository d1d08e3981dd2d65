import CLinux
import Foundation

extension FileSystem {
    /// The error for a system call that has just failed.
    ///
    /// - Parameters:
    ///   - action: What could not be done, to continue “Could not …”: a verb without the path.
    ///   - path: To what.
    ///   - number: `errno` after the call, unless it still has that value.
    package static func failure(
        _ action: String, _ path: String, errno number: Int32? = nil
    ) -> QuireError {
        let number = number ?? errno
        let text = String(cString: strerror(number))
        let code: QuireError.Code
        let message: String
        switch number {
        case ENOENT:
            code = .notFound
            message = "There is no “\(path)”."
        case EEXIST, ENOTEMPTY:
            code = .alreadyExists
            message = "There is a “\(path)” already; remove it or choose another name."
        case ENOSPC, EDQUOT, EFBIG:
            code = .outOfSpace
            message = "Could not \(action) “\(path)”: \(text). Free some space and try again."
        case EROFS, EACCES, EPERM:
            code = .readOnly
            message = "Could not \(action) “\(path)”: \(text). Check who may read and write there."
        case ENOTDIR:
            code = .notFound
            message = "Could not \(action) “\(path)”: a part of the path is no folder."
        default:
            code = .inputOutput
            message = "Could not \(action) “\(path)”: \(text)."
        }
        return QuireError(
            code, message, subject: .init(file: path),
            underlying: POSIXErrorCode(rawValue: number).map { POSIXError($0) })
    }
}
