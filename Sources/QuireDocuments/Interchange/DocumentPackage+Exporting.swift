public import Foundation
import Quire
import QuireSQLite

// Exporting the objects of a package to formats that other programs read.

extension DocumentPackage {
    /// Exports the objects as of the last save to a plain SQLite database, for any tool that reads one: tables and columns have the
    /// names of entities and properties, relationships are foreign keys.
    ///
    /// - A hierarchy of entities is a table of its root's name with a column `entity`; each entity below the root is a view.
    /// - The primary key `id` is the number in an identifier, 12 in `Author/p12`. Property names that differ only in case are
    ///   distinguished by a number, and a property called `id` is `property.id`.
    /// - An element of a composite attribute is a column `name.element`. Dates are ISO 8601 in UTC; decimals, UUIDs and URIs are
    ///   text; Booleans are 0 and 1; binary and transformable values are blobs. Transient attributes are omitted.
    /// - A many-to-many relationship is a table `Entity_relationship`. If a relationship is ordered, a column such as
    ///   `book.position` beside the foreign key `book` has the position. References to missing objects are omitted.
    ///
    /// ```swift
    /// let package = try DocumentPackage.open(at: "Library.quire", readOnly: true)
    /// try package.exportDatabase(to: "library.sqlite")
    /// ```
    ///
    /// ```sql
    /// SELECT Book.title, Author.name FROM Book JOIN Author ON Book.author = Author.id
    /// ```
    ///
    /// Exporting an unchanged document again produces an identical database, with the same version of SQLite. Other processes can
    /// read and save the document meanwhile. The database and the digests of external data are checked; additional content is not
    /// exported. The database has the permissions of the store, if the package's folder lets others reach it. It is created
    /// completely or not at all.
    ///
    /// - Parameters:
    ///   - path: The database to create.
    ///   - replacing: Whether to replace an existing file.
    ///   - removingProtection: Whether a protected document may be exported. The database is not encrypted.
    ///   - progress: Counts the objects to write. Cancelling it stops the export and leaves no file.
    /// - Complexity: O(*n* log *n*) in the objects, one batch of which is in memory for each entity of a hierarchy.
    /// - Throws: ``QuireError`` with code `alreadyExists`, `invalidFormat` if the package is damaged or lacks values that have
    ///   not arrived from other machines, `invalidValue` if a value is too large for SQLite, `protectionUnavailable` if it is
    ///   protected and `removingProtection` is false, `protectedDataUnavailable` if it is locked, `cancelled`, or errors of
    ///   reading and writing. Then no database is left.
    public func exportDatabase(
        to path: String, replacing: Bool = false, removingProtection: Bool = false,
        progress: Progress? = nil
    ) throws {
        try exportCopy(to: path, replacing: replacing, removingProtection: removingProtection) {
            try DatabaseExport(
                store: $0, destination: path, replacesExisting: replacing, progress: progress,
                permissions: $1
            ).run()
        }
    }

    /// Exports the objects as of the last save to a folder of CSV files or of JSON lines, one file for each entity, with a
    /// description of the tables, `datapackage.json` (Frictionless Data Package, version 1).
    ///
    /// Each file contains the objects of an entity without those of its sub-entities. Transient properties are omitted.
    ///
    /// - **CSV** (RFC 4180): the columns of ``exportDatabase(to:replacing:removingProtection:progress:)``, and a file for each
    ///   join table. A missing value is an empty field, an empty string is `""`. Infinities are `INF` and `-INF`.
    /// - **JSON lines**: an object per line, with the same members and values as in `quire dump`.
    ///
    /// A binary value of at most 100 KiB is base64. A larger one is stored as a file in the folder `data`, and replaced with the
    /// path of that file, in JSON lines with an object with `path` and `bytes`.
    ///
    /// Exporting an unchanged document again produces identical files. The folder has the permissions of the store, if the
    /// package's folder lets others reach it. It is created completely or not at all.
    ///
    /// - Parameters:
    ///   - path: The folder to create.
    ///   - format: The format of the tables.
    ///   - replacing: Whether to replace an earlier export of this kind; other folders and files are never replaced.
    ///   - removingProtection: Whether a protected document may be exported. The files are not encrypted.
    ///   - progress: Counts the objects to write, for CSV each one twice. Cancelling it stops the export and leaves nothing.
    /// - Throws: As ``exportDatabase(to:replacing:removingProtection:progress:)``. Then no folder is left.
    public func exportTables(
        to path: String, format: TableFormat, replacing: Bool = false,
        removingProtection: Bool = false, progress: Progress? = nil
    ) throws {
        try exportCopy(to: path, replacing: replacing, removingProtection: removingProtection) {
            try TableExport(
                store: $0, destination: path, format: format, replacesExisting: replacing,
                progress: progress, permissions: $1
            ).run()
        }
    }

    /// Throws if an export that is not encrypted must not be written to a path.
    func checkExport(to path: String, removingProtection: Bool) throws {
        if let protection = store.protection, !removingProtection {
            throw QuireError(
                .protectionUnavailable,
                "“\(layout.path)” is protected (\(protection.fileProtection.rawValue)), and its export would not be encrypted; confirm that, or export a sealed archive.",
                file: layout.path)
        }
        try checkOutside(path)
    }

    /// Calls a closure with a copy of the store as of the last save, and the permissions of a file with its content.
    private func exportCopy(
        to path: String, replacing: Bool, removingProtection: Bool,
        _ body: (SQLiteStore, _ permissions: UInt32?) throws -> Void
    ) throws {
        let path = FileSystem.absolute(path)
        try checkExport(to: path, removingProtection: removingProtection)
        if !replacing, FileSystem.exists(path) {
            throw FileSystem.failure("create", path, errno: EEXIST)
        }
        // On the export's file system: if there is no room for the copy, there is none for the export.
        let sibling = try TemporarySibling.makeFolder(beside: path)
        defer { sibling.remove() }
        let staging = DocumentPackageLayout(path: FileSystem.path(sibling.path, "staging"))
        let copy = try sibling.building {
            try FileSystem.makeFolder(staging.storeFolder, withIntermediates: true)
            _ = try fillComplete(staging, advice: "Run it first.")
            var options = SQLiteStoreOptions()
            options.isReadOnly = true
            options.isOnlyWriter = true
            return try SQLiteStore.open(
                at: staging.store, model: store.layout.model, options: options)
        }
        defer { try? copy.close() }
        try body(copy, SQLiteStore.permissions(forCopyOf: layout.store))
    }
}
