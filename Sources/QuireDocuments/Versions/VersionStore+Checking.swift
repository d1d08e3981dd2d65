import Foundation
import Quire
internal import QuireRescue

extension VersionStore {
    /// Reads all of all versions. What is wrong with one is an error of that version, and a warning for the document, which
    /// is none the worse for it.
    func problems() throws -> [DocumentProblem] {
        let ids = try ids()
        var problems = try strayFileProblems(Set(ids))
        if ids.isEmpty { return problems }
        let blocks = try BlockStore(of: layout)
        problems += blocks.damaged.map {
            DocumentProblem(
                severity: .warning, path: $0.subject.file ?? blocks.folder, message: $0.message)
        }
        var soundness: [BlockDigest: Bool] = [:]
        func isSound(_ digest: BlockDigest) -> Bool {
            if let known = soundness[digest] { return known }
            let isSound = blocks.block(digest) != nil
            soundness[digest] = isSound
            return isSound
        }
        var checked: [FileInformation.Identity: Bool] = [:]
        for id in ids {
            do {
                try reading(id) { folder, manifest in
                    let isWhole = BlockDigest.list(Array(manifest.nodes)).allSatisfy { node in
                        guard isSound(node), let digests = blocks.block(node) else { return false }
                        return BlockDigest.list(digests).allSatisfy(isSound)
                    }
                    if !isWhole {
                        problems.append(
                            problem(
                                folder,
                                "Blocks of the version “\(id)” of “\(layout.path)” are missing or damaged."
                            ))
                    }
                    for found in try fileProblems(id, manifest)
                        + digestProblems(id, manifest, &checked)
                    {
                        problems.append(problem(found.path, found.message))
                    }
                }
            } catch let error as QuireError {
                if error.code == .notFound, !isThere(id) { continue }
                problems.append(problem(layout.version(id), error.message))
            }
        }
        return problems
    }

    private func problem(_ path: String, _ message: String) -> DocumentProblem {
        DocumentProblem(severity: .warning, path: path, message: message)
    }

    /// Files of external data whose bytes are not what the store recorded. One that several versions share is read once.
    private func digestProblems(
        _ id: String, _ manifest: VersionManifest, _ checked: inout [FileInformation.Identity: Bool]
    ) throws -> [DocumentProblem] {
        var problems: [DocumentProblem] = []
        for (name, file) in manifest.externalFiles.sorted(by: { $0.key < $1.key }) {
            let path = FileSystem.path(layout.version(id), "\(Self.externalDataName)/\(name)")
            guard let expected = file.sha256,
                let information = try FileSystem.information(at: path, beneath: layout.path),
                information.kind == .regular, information.size == file.size
            else { continue }
            let isSound =
                try checked[information.identity]
                ?? FileDigest.isSHA256(
                    expected, ofFileAt: path, beneath: layout.path,
                    unsealing: protection?.classKey)
            checked[information.identity] = isSound
            if !isSound {
                problems.append(
                    problem(path, "The file “\(path)” of the version “\(id)” is not what was kept.")
                )
            }
        }
        return problems
    }

    private func strayFileProblems(_ ids: Set<String>) throws -> [DocumentProblem] {
        guard FileSystem.exists(layout.versions, beneath: layout.path) else { return [] }
        return try FileSystem.names(in: layout.versions, beneath: layout.path).filter {
            !ids.contains($0) && !FileSystem.isTemporaryName($0) && $0 != "Blocks"
        }.map {
            let path = FileSystem.path(layout.versions, $0)
            return problem(path, "“\(path)” is no part of the document.")
        }
    }
}
