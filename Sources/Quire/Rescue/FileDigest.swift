internal import Crypto
package import Foundation

/// Digests of files.
package enum FileDigest {
    /// The SHA-256 of a file's bytes.
    package static func sha256(ofFileAt path: String, beneath root: String) throws -> Data {
        var digest = SHA256()
        let file = try OpenFile.open(path, beneath: root, for: .reading)
        try withUnsafeTemporaryAllocation(byteCount: 262_144, alignment: 16) { buffer in
            while true {
                let count = try file.read(into: buffer)
                if count == 0 { return }
                digest.update(bufferPointer: UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            }
        }
        return Data(digest.finalize())
    }
}
