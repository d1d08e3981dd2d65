import ArgumentParser
import Foundation
import Quire
import QuireDocuments

/// `quire diff PATH [SINCE]`
struct DiffCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "diff",
        abstract: "Shows the changes to a document since another state.",
        discussion: """
            SINCE is the older state: another document or store; a version of the document (its \
            identifier or the beginning of it, its name, or “latest”); or a transaction of its \
            history (its number or an encoded token). The default is the last version. A history \
            records which objects and properties have changed, but not their values.

            Objects are the same if they have the same entity and key. So compare a document with \
            its copies, its versions, and its replicas on other machines. The result is \
            meaningless for documents that were created separately, and a store written by convert \
            may have different keys.

            Lines begin with + for additions, - for removals and ~ for changes. Binary values and \
            additional content are shown by size and SHA-256. Renamed entities and properties are \
            compared if they have the same renaming identifier. Those in only one of the models \
            are listed but not compared.

            EXAMPLES:
              quire diff Library.quire
              quire diff Library.quire 'as handed in' --stat
              quire diff Library.quire Backup/Library.quire --entity Book --json
              quire diff Recipes.sqlite 12
              quire diff A.quire B.quire --exit-code > /dev/null || echo They differ.
            """)

    @Argument(help: ArgumentHelp("A document or a store.", valueName: "PATH"))
    var path: String

    @Argument(
        help: ArgumentHelp(
            "Another document or store, a version, or a transaction; the last version by default.",
            valueName: "SINCE"))
    var since: String?

    @OptionGroup var comparison: ComparisonOptions
    @OptionGroup var options: DocumentOptions

    private enum Since {
        case path(String)
        case version(DocumentVersion, DocumentPackage)
        case transaction(Int64)
    }

    @MainActor
    func run() async throws {
        try comparison.run(json: options.json) { comparison in
            let new = try ComparedState(at: path, model: options.model, options.unlock)
            defer { new.close() }
            switch try resolved(new) {
            case .path(let path):
                let old = try ComparedState(at: path, model: options.model, options.unlock)
                defer { old.close() }
                try comparison.compare(old, new)
            case .version(let version, let package):
                try ComparedState.withVersion(
                    version, in: package.checkOut(version.id), ofDocumentAt: path
                ) { try comparison.compare($0, new) }
            case .transaction(let number):
                try comparison.compare(new, sinceTransaction: number)
            }
        }
    }

    /// The meaning of the second argument: a path if there is a file or folder, a version if there is one, else a transaction.
    private func resolved(_ new: ComparedState) throws -> Since {
        guard let since else {
            guard let package = new.package else {
                throw Failure.usage(
                    "“\(path)” is a store, which has no versions; specify another store, or a transaction of its history, to compare with."
                )
            }
            guard let latest = try package.versions().first else {
                throw QuireError(
                    .notFound,
                    "“\(path)” has no version to compare with; keep one with “quire versions keep”, or specify another document.",
                    file: path)
            }
            return .version(latest, package)
        }
        if FileSystem.exists(since) { return .path(since) }
        let number = try transactionNumber(since, new)
        if let package = new.package {
            let versions = try package.versions()
            do {
                return .version(
                    try DocumentVersion.named(since, among: versions, of: path), package)
            } catch let error as QuireError where error.code == .notFound && number == nil {
                let advice = DocumentVersion.advice(since, among: versions)
                throw QuireError(
                    .notFound,
                    "“\(since)” is neither a document nor a version of “\(path)”\(advice)",
                    file: since)
            } catch let error as QuireError where error.code == .notFound {}
        }
        if let number { return .transaction(number) }
        throw QuireError.notFound("document", at: since)
    }

    /// The number of the transaction that a text names by its number or an encoded token; `nil` if it does neither.
    private func transactionNumber(_ text: String, _ new: ComparedState) throws -> Int64? {
        if let number = Int64(text) { return number }
        guard text.hasPrefix("{") else { return nil }
        let uuid = new.store.identity.uuid
        do {
            let token = try JSONDecoder().decode(
                PersistentHistoryToken.self, from: Data(text.utf8))
            if let number = token.transactionNumbers[uuid] {
                // A token of another state of the store is an error.
                var request = PersistentHistoryChangeRequest.fetchHistory(after: token)
                request.resultType = .statusOnly
                _ = try new.store.execute(request)
                return number
            }
        } catch let error as QuireError {
            throw error
        } catch {
            throw QuireError(
                .invalidValue, "“\(text)” is not a history token: \(error.localizedDescription)",
                subject: .init(value: text))
        }
        throw QuireError(
            .notFound, "The history token does not belong to “\(path)”.",
            file: path, value: text)
    }
}

// MARK: - Additional content

/// A file of additional content that differs.
struct ContentDifference {
    let path: String
    /// Its old and new bytes; `nil` if it is not there.
    let old: ComparedValue?
    let new: ComparedValue?

    /// The files of two packages that differ; stores have none.
    static func all(
        _ old: DocumentPackage?, _ new: DocumentPackage?
    ) throws -> [ContentDifference] {
        func sizes(_ package: DocumentPackage?) throws -> [FileName: Int64] {
            Dictionary(
                try (package?.additionalContent() ?? []).map { (FileName($0.path), $0.size) },
                uniquingKeysWith: { first, _ in first })
        }
        let before = try sizes(old)
        let after = try sizes(new)
        return try Set(before.keys).union(after.keys).sorted().compactMap { path in
            let oldDigest = before[path] == nil ? nil : try digest(of: path.text, in: old)
            let newDigest = after[path] == nil ? nil : try digest(of: path.text, in: new)
            if let oldDigest, let newDigest, oldDigest == newDigest { return nil }
            func value(_ record: ExternalDataRecord?) -> ComparedValue? {
                record.map { .bytes(count: $0.size, sha256: $0.sha256) }
            }
            return ContentDifference(path: path.text, old: value(oldDigest), new: value(newDigest))
        }
    }

    private static func digest(
        of path: String, in package: DocumentPackage?
    ) throws -> ExternalDataRecord {
        let digest = RunningDigest()
        guard try package?.readAdditionalContent(at: path, digest.update) == true else {
            throw QuireError.notFound("file", at: path)
        }
        return digest.record
    }
}
