public import Foundation
import Quire

/// The result of verifying an archive.
public struct VerifiedArchive: Sendable, Hashable {
    /// The number of files, which are exactly those in the manifest.
    public var files: Int
    /// The number of their bytes.
    public var bytes: Int64
    /// The key that signed the manifest; `nil` if it is not signed.
    public var signer: ArchiveSigner?
}

extension DocumentPackage {
    /// Verifies an archive without extracting it: its files must be exactly those in its manifest. Nothing is written.
    ///
    /// If the archive is signed, the signature must be valid, and the archive must not contain other files. With a list of
    /// allowed signers, one of them must have signed it. Without a list, ``VerifiedArchive/signer`` is the key that signed it,
    /// whoever owns it. The list is a file in OpenSSH's format; see ALLOWED SIGNERS in ssh-keygen(1). Only Ed25519 keys can
    /// be verified, including those in hardware.
    ///
    /// A signature covers the paths and contents of files. It does not cover other data in an archive, such as dates.
    ///
    /// - Parameters:
    ///   - archive: The archive, or a folder with an unpacked one.
    ///   - allowedSigners: The path of the list of allowed signers; `nil` to accept unsigned archives, and any key.
    ///   - identity: The identity of the required signer, such as an address; `nil` for any signer in the list.
    ///   - date: The time at which the signer's key must be valid.
    ///   - limits: The limits on the archive's content.
    ///   - progress: Counts the archive's bytes. Cancelling it stops the verification.
    /// - Returns: The numbers of verified files and bytes, and the signer.
    /// - Throws: ``QuireError`` with code `notFound`; `invalidFormat` if the archive has no manifest, differs from it, or was
    ///   changed after it was signed; `untrustedSignature` if it is not signed by an allowed signer; `unsupported` if the
    ///   signature cannot be verified; `cancelled`, or errors of reading.
    public static func verify(
        archive: String, allowedSigners: String? = nil, identity: String? = nil,
        at date: Date = Date(), limits: ArchiveLimits = ArchiveLimits(), progress: Progress? = nil
    ) throws -> VerifiedArchive {
        try verify(
            archive: archive, at: nil, allowedSigners: allowedSigners, identity: identity,
            date: date, limits: limits, progress: progress)
    }

    /// Verifies the archive that an open file, pipe or socket contains, for example standard input; see
    /// ``verify(archive:allowedSigners:identity:at:limits:progress:)``. It is first copied to the folder for temporary files, to its end. The
    /// descriptor stays open.
    ///
    /// - Parameter name: The name of the archive in errors.
    package static func verify(
        descriptor: Int32, named name: String, allowedSigners: String? = nil,
        identity: String? = nil, limits: ArchiveLimits = ArchiveLimits(), progress: Progress? = nil
    ) throws -> VerifiedArchive {
        let folder = try TemporarySibling.makeFolderInTemporaryDirectory()
        defer { folder.remove() }
        let spool = try spooled(
            descriptor, named: name, beside: FileSystem.path(folder.path, "archive"),
            limits: limits, progress: progress)
        defer { spool.remove() }
        return try verify(
            archive: name, at: spool.path, allowedSigners: allowedSigners, identity: identity,
            date: Date(), limits: limits, progress: progress)
    }

    /// - Parameter location: The path to read from, if errors name another one.
    private static func verify(
        archive: String, at location: String?, allowedSigners: String?, identity: String?,
        date: Date, limits: ArchiveLimits, progress: Progress?
    ) throws -> VerifiedArchive {
        let allowed = try allowedSigners.map(AllowedSigners.init(path:))
        let checked = try ArchiveExtraction(
            archive: archive, location: location, destination: "", limits: limits,
            progress: progress, objection: DocumentPackageLayout.objection(toArchived:isFolder:)
        ).check()
        guard let manifest = checked.manifest, let message = checked.message else {
            throw QuireError(
                .invalidFormat,
                "“\(archive)” cannot be verified: it has no manifest, because another program created it.",
                file: archive)
        }
        let files = manifest.entries.filter { !$0.path.hasSuffix("/") }
        guard files.contains(where: { $0.path == DocumentPackageLayout.storePath }) else {
            throw QuireError(
                .invalidFormat, "“\(archive)” is not a document archive: it has no store.",
                file: archive)
        }
        var result = VerifiedArchive(
            files: files.count, bytes: files.reduce(0) { $0 + $1.size })
        guard let armored = checked.signature else {
            if let allowed {
                throw QuireError(
                    .untrustedSignature,
                    "“\(archive)” is not signed, so none of the signers in “\(allowed.path)” vouches for it.",
                    file: archive)
            }
            return result
        }
        let signature = try ArchiveSignature(armored: armored, archive: archive)
        try signature.verify(message)
        if let path = checked.unlistedPath {
            throw QuireError(
                .invalidFormat,
                "“\(archive)” was changed after it was signed: it also contains “\(path)”.",
                file: archive)
        }
        result.signer = ArchiveSigner(
            keyType: signature.key.type, fingerprint: signature.key.fingerprint,
            principals: try allowed?.principals(
                for: signature.key, identity: identity, at: date, archive: archive))
        return result
    }
}
