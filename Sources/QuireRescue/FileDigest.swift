internal import Crypto
package import Foundation
package import QuireProtection
internal import QuireSystem

/// Digests of files.
package enum FileDigest {
    /// Whether a file has what was written into it, by the SHA-256 of that. One that is not what was sealed has not.
    package static func isSHA256(
        _ expected: Data, ofFileAt path: String, beneath root: String, unsealing classKey: ClassKey?
    ) throws -> Bool {
        var digest = SHA256()
        let opened = try OpenFile.open(path, beneath: root, for: .reading)
        do {
            let file = try ContentFile(opened, unsealing: classKey)
            try file.forEachBlock(ofSize: 262_144) { digest.update(bufferPointer: $0) }
        } catch let error as QuireError where error.code == .invalidFormat && classKey != nil {
            return false
        }
        return Data(digest.finalize()) == expected
    }
}
