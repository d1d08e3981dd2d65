import Foundation
public import QuireProtection
public import QuireStore
public import QuireSystem

extension SQLiteStore {
    /// What it can do.
    public var capabilities: StoreCapabilities {
        let common: StoreCapabilities = [
            .saving, .atomicSaves, .versions, .constraints, .derivedAttributes,
            .orderedRelationships, .batchRequests, .records, .metadata, .predicates, .explaining,
            .preparedSaves,
        ]
        return isInMemory
            ? common
            : common.union([
                .durableSaves, .reopening, .externalData, .sharing, .lastingIdentifiers,
                .lastingVersions,
            ])
    }

    /// What the store says of itself and of the model it was made with.
    public func metadata() throws -> StoreMetadata {
        try read { try SQLiteMetadataReader(connection: $0, path: storePath).metadata() }
    }

    /// The class of protection that a store on disk has, or the document package that it is in. No key is needed, so that
    /// nobody has vouched for it yet: opening the store does.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` or `unsupported` if its keybag cannot be read.
    public static func fileProtection(at path: String) throws -> FileProtection {
        try StoreProtection.domain(ofStoreAt: path)?.protection ?? .none
    }

    /// What a store says of itself, without its model. Opening it leaves no trace.
    ///
    /// - Throws: ``QuireError`` with code `notFound`, `invalidFormat` or `storeUnavailable`.
    public static func metadata(at path: String) throws -> StoreMetadata {
        let path = FileSystem.absolute(path)
        guard exists(at: path) else {
            throw QuireError(.notFound, "There is no “\(path)”.", subject: .init(file: path))
        }
        var options = SQLiteStoreOptions()
        options.isReadOnly = true
        let source = try SQLiteStoreSource(path: path, isReadOnly: true)
        defer { source.release() }
        do {
            let connection = try source.connect(.reading, options: options)
            defer { connection.close() }
            return try SQLiteMetadataReader(connection: connection, path: path).metadata()
        } catch let failure as SQLiteFailure {
            throw failure.openingError(path: path)
        }
    }

    /// Keeps a value for an application in a transaction of its own.
    public func setMetadata(_ value: PropertyListValue?, forKey key: String) throws {
        try StoreMetadata.requireUnreserved(key, file: storePath)
        try withWriter { writer in
            let connection = writer.connection
            try connection.begin()
            do {
                try writer.modelGuard.checkTriggers(connection)
                var metadata = try SQLiteMetadataReader(connection: connection, path: storePath)
                    .metadata()
                metadata.values[key] = value
                try connection.withStatement(
                    "UPDATE Z_METADATA SET Z_PLIST = ?1 WHERE Z_VERSION = (SELECT min(Z_VERSION) FROM Z_METADATA)"
                ) {
                    try $0.bind(metadata.propertyList, at: 1)
                    try $0.run()
                }
                try connection.commit()
            } catch {
                SQLiteSave.undo(after: error as? SQLiteFailure, store: self, writer: writer)
                throw error
            }
        }
    }
}
