internal import Crypto
package import Foundation

/// Digests of files.
package enum FileDigest {
    /// The SHA-256 of what was written into a file.
    package static func sha256(
        ofFileAt path: String, beneath root: String, unsealing classKey: ClassKey? = nil
    ) throws -> Data {
        var digest = SHA256()
        let file = try ContentFile(
            OpenFile.open(path, beneath: root, for: .reading), unsealing: classKey)
        try file.forEachBlock(ofSize: 262_144) { digest.update(bufferPointer: $0) }
        return Data(digest.finalize())
    }
}
