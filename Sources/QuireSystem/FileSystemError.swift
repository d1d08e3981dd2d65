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

extension FileSystem {
    /// The error for what a function of Foundation has thrown: itself if it is ours, or else the one for the system call
    /// that failed, as far as Foundation tells.
    ///
    /// - Parameters:
    ///   - action: What could not be done; see ``failure(_:_:errno:)``.
    ///   - path: To what, unless the error says so itself.
    package static func failure(
        _ action: String, _ path: String?, thrown error: any Error
    ) -> QuireError {
        if let error = error as? QuireError { return error }
        let details = error as NSError
        let named = details.userInfo[NSFilePathErrorKey] as? String
        let path = named ?? (details.userInfo[NSURLErrorKey] as? URL)?.path ?? path
        if let path, let number = errorNumber(of: details) {
            var failure = failure(action, path, errno: number)
            failure.underlying = error
            return failure
        }
        let subject = path.map { " “\($0)”" } ?? ""
        return QuireError(
            .inputOutput, "Could not \(action)\(subject): \(details.localizedDescription)",
            subject: .init(file: path), underlying: error)
    }

    private static func errorNumber(of error: NSError) -> Int32? {
        if error.domain == NSPOSIXErrorDomain { return Int32(truncatingIfNeeded: error.code) }
        if let cause = error.userInfo[NSUnderlyingErrorKey] as? any Error,
            let number = errorNumber(of: cause as NSError)
        {
            return number
        }
        guard error.domain == NSCocoaErrorDomain else { return nil }
        switch CocoaError.Code(rawValue: error.code) {
        case .fileWriteOutOfSpace: return ENOSPC
        case .fileNoSuchFile, .fileReadNoSuchFile: return ENOENT
        case .fileReadNoPermission, .fileWriteNoPermission: return EACCES
        case .fileWriteVolumeReadOnly: return EROFS
        case .fileWriteFileExists: return EEXIST
        default: return nil
        }
    }
}

extension QuireError {
    /// The error with another path wherever it names a path, or what is beneath that: one that means something to the reader
    /// instead of a temporary one, which is gone by then.
    package func naming(_ path: String, insteadOf temporary: String) -> QuireError {
        var error = self
        error.message.replace(temporary, with: path)
        error.subject.file?.replace(temporary, with: path)
        error.failures = failures.map { $0.naming(path, insteadOf: temporary) }
        return error
    }
}

extension FileSystem {
    /// Runs what builds something under a temporary path. Its errors name the path that it will have instead.
    package static func building<Result>(
        _ path: String, as temporary: String, _ body: () throws -> Result
    ) throws -> Result {
        do {
            return try body()
        } catch let error as QuireError {
            throw error.naming(path, insteadOf: temporary)
        }
    }
}
