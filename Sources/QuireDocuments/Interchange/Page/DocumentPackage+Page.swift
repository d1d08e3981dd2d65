public import Foundation
import Quire
internal import QuireSQLite

extension DocumentPackage {
    /// Exports the document as of the last save to one HTML page, to view it in a browser.
    ///
    /// The page contains the objects of all entities, with their relationships and pictures, and the model. It contains its
    /// script and style, and does not need a server or a network. It is not encrypted. It cannot be imported again; for that, use
    /// ``export(to:replacing:keepingDamage:protection:options:progress:)``.
    ///
    /// ```swift
    /// let package = try DocumentPackage.open(at: "Library.quire", readOnly: true)
    /// try package.exportPage(to: "Library.html")
    /// ```
    ///
    /// Pictures are binary values that begin like PNG, JPEG, GIF or WebP. Other binary and transformable values, and additional
    /// content, are shown by size. A value whose file cannot be read is shown as unreadable. Exporting an unchanged document
    /// again produces an identical page. Other processes can read and save the document meanwhile. The page has the permissions
    /// of the store, if the package's folder lets others reach it.
    ///
    /// - Parameters:
    ///   - path: The file to create.
    ///   - replacing: Whether to replace an existing file.
    ///   - removingProtection: Whether to export a protected document, which must be unlocked; the page is not encrypted.
    ///   - pictures: The limits for pictures. Pictures that exceed them are shown by size.
    ///   - progress: Counts the objects. Cancelling it stops the export and leaves no file.
    /// - Complexity: O(*n*) in the size of the content, of which one batch of objects is in memory. Browsers read the whole page.
    /// - Throws: ``QuireError`` with code `alreadyExists`, `invalidValue` if the path is inside a document,
    ///   `protectionUnavailable` if the document is protected and `removingProtection` is `false`, `protectedDataUnavailable` if
    ///   it is locked, `generationExpired` if other processes save too much in the meantime, `cancelled`, or errors of reading
    ///   and writing. Then no file is left.
    public func exportPage(
        to path: String, replacing: Bool = false, removingProtection: Bool = false,
        pictures: PagePictures = PagePictures(), progress: Progress? = nil
    ) throws {
        try checkExport(to: path, removingProtection: removingProtection)
        var page = DocumentPage(of: store, title: DocumentLibrary.name(of: layout.path))
        page.pictures = pictures
        page.files = { store in
            try self.content.files(in: self.content.generation(in: store.records())).map {
                DocumentPage.File(path: $0.path.text, size: $0.size)
            }
        }
        try page.write(
            to: path, replacing: replacing,
            permissions: SQLiteStore.permissions(forCopyOf: layout.store), progress: progress)
    }

    /// Exports the document to one HTML page at a URL; see ``exportPage(to:replacing:removingProtection:pictures:progress:)-(String,_,_,_,_)``.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if the URL is not a file URL, or the errors of that method.
    public func exportPage(
        to url: URL, replacing: Bool = false, removingProtection: Bool = false,
        pictures: PagePictures = PagePictures(), progress: Progress? = nil
    ) throws {
        try exportPage(
            to: FileSystem.path(of: url), replacing: replacing,
            removingProtection: removingProtection, pictures: pictures, progress: progress)
    }
}
