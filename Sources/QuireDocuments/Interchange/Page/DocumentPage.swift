import Crypto
package import Foundation
import Quire
package import QuireStore

/// The pictures that a page contains; others are shown by their size.
public struct PagePictures: Sendable, Hashable {
    /// The maximum size of a picture, in bytes.
    public var maximumSize: Int
    /// The maximum size of all pictures together, in bytes. A page is larger by a third of that, because pictures are encoded as
    /// text.
    public var maximumTotalSize: Int

    /// Creates limits, by default 2 MiB for a picture and 32 MiB in total: enough for some dozens of screen-size photos in a page
    /// that browsers open at once.
    public init(maximumSize: Int = 2 << 20, maximumTotalSize: Int = 32 << 20) {
        self.maximumSize = maximumSize
        self.maximumTotalSize = maximumTotalSize
    }

    /// No pictures.
    public static let none = PagePictures(maximumSize: 0, maximumTotalSize: 0)
}

/// Writes the objects of a store as one HTML page, to look at them in a browser without Quire and without a network.
///
/// Invariants
/// ==========
///
/// - The content is hostile: nothing of it is parsed as HTML. It is in `script` elements of JSON and base64 (``PageJSON``), which
///   the page's script reads and shows as texts and as pictures of four types. Only the title is HTML, escaped.
/// - The page's Content-Security-Policy allows its own script and style, by their digests, and pictures of `data:` addresses.
///   It allows no other address, no form, and no HTML made by a script.
/// - The page is as of one commit, where the store supports that.
/// - The file appears whole or not at all, and equal content gives an equal page.
/// - One batch of objects, and a piece of one value, are in memory.
package struct DocumentPage {
    /// A file of additional content, which the page lists.
    package struct File: Sendable, Encodable {
        package var path: String
        /// The size in bytes.
        package var size: Int64

        package init(path: String, size: Int64) {
            self.path = path
            self.size = size
        }
    }

    /// The store with the objects.
    let store: any PersistentStore
    /// The document's name, the page's title.
    let title: String
    /// The limits for pictures.
    package var pictures = PagePictures()
    /// Lists additional content as of the commit that the given store reads.
    package var files: (any PersistentStore) throws -> [File] = { _ in [] }

    /// Describes the page of a store's objects.
    package init(of store: any PersistentStore, title: String) {
        self.store = store
        self.title = title
    }

    /// Writes the page.
    ///
    /// - Parameters:
    ///   - path: The file to create.
    ///   - replacing: Whether to replace an existing file.
    ///   - permissions: The maximum permissions of the file; `nil` for those of any new file.
    ///   - progress: Counts the objects. Cancelling it stops the export and leaves no file.
    /// - Throws: ``QuireError`` with code `alreadyExists`, `invalidValue` if the path is the store's, `cancelled`,
    ///   `generationExpired` if other processes save very much meanwhile, or errors of reading and writing.
    package func write(
        to path: String, replacing: Bool = false, permissions: UInt32? = nil,
        progress: Progress? = nil
    ) throws {
        let path = replacing ? FileSystem.resolvingLink(path) : FileSystem.absolute(path)
        if !replacing, FileSystem.exists(path) {
            throw FileSystem.failure("create", path, errno: EEXIST)
        }
        if let own = store.path, let old = try FileSystem.information(at: path),
            try FileSystem.information(at: own)?.isSameFile(as: old) == true
        {
            throw QuireError(
                .invalidValue,
                "“\(path)” is the store that the page would show; choose another path.",
                file: path)
        }
        let part = try TemporarySibling.makeFile(beside: path)
        defer { part.remove() }
        try part.building {
            try withPinnedStore { store in
                try write(store, to: part.file, reportedAs: path, progress: progress)
            }
            try part.publishFile(replacing: replacing, permissions: permissions)
        }
    }

    /// Runs a closure with a store that reads the last commit, whatever is saved meanwhile.
    private func withPinnedStore(_ body: (any PersistentStore) throws -> Void) throws {
        let pinned: any PersistentStore
        do {
            pinned = try store.pinned()
        } catch let error as QuireError where error.code == .unsupported {
            return try body(store)
        }
        defer { try? pinned.close() }
        try body(pinned)
    }

    private func write(
        _ store: any PersistentStore, to file: OpenFile, reportedAs path: String,
        progress: Progress?
    ) throws {
        progress?.completedUnitCount = 0
        progress?.totalUnitCount = try store.layout.entities.reduce(0) { sum, entity in
            if entity.isAbstract { return sum }
            return sum + Int64(try store.count(matching: FetchSpecification(only: entity.name)))
        }
        let title = Self.escaped(title)
        try file.write(Self.beginning(title: title))
        var objects = PageObjects(
            of: store, to: file, pictures: pictures, progress: progress, path: path)
        var model = PageModel(title: self.title, entities: [], files: try files(store))
        for entity in store.layout.entities {
            var columns: [PageColumn] = []
            var description = PageModel.Entity(entity, in: store.layout, columns: &columns)
            description.count = try objects.write(entity, columns)
            model.entities.append(description)
        }
        model.omittedPictures = objects.omittedPictures
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        var json = PageJSON()
        json.append(json: try encoder.encode(model))
        try file.write("<script type=\"application/json\" id=\"model\">")
        try json.bytes.withUnsafeBytes { try file.write($0) }
        try file.write("</script>\n<script>\(PageScript.text)</script>\n</body>\n</html>\n")
    }

    // MARK: - HTML

    /// What is before the objects. The SVG element gives the script the namespace that it draws in.
    private static func beginning(title: String) -> String {
        """
        <!DOCTYPE html>
        <html lang="en">
        <head>
        <meta charset="utf-8">
        <meta http-equiv="Content-Security-Policy" content="\(policy)">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <meta name="color-scheme" content="light dark">
        <meta name="referrer" content="no-referrer">
        <meta name="generator" content="Quire">
        <title>\(title)</title>
        <link rel="icon" href="data:,">
        <style>\(PageStyle.text)</style>
        </head>
        <body>
        <a class="skip" href="#main">Skip to the content</a>
        <header>
        <p class="brand"><a href="#/"><bdi>\(title)</bdi></a></p>
        <button type="button" id="menu" aria-expanded="false" aria-controls="navigation">Contents</button>
        <form id="search" role="search"><label class="spoken" for="find">Search all objects</label><input type="search" id="find" placeholder="Search all objects" autocomplete="off" spellcheck="false"></form>
        </header>
        <nav id="navigation" aria-label="Document"></nav>
        <main id="main"><noscript>This page shows the document with its own script. Allow scripts for this page to read it.</noscript></main>
        <p class="spoken" id="status" role="status"></p>
        <svg id="drawing" hidden></svg>

        """
    }

    /// The Content-Security-Policy. The last two directives refuse HTML that a script makes of texts.
    static let policy = """
        default-src 'none'; img-src data:; style-src '\(digest(of: PageStyle.text))'; \
        script-src '\(digest(of: PageScript.text))'; base-uri 'none'; form-action 'none'; \
        require-trusted-types-for 'script'; trusted-types 'none'
        """

    /// The digest of an element's text, as a policy has it.
    private static func digest(of text: String) -> String {
        "sha256-" + Data(SHA256.hash(data: Data(text.utf8))).base64EncodedString()
    }

    /// A text as HTML.
    private static func escaped(_ text: String) -> String {
        var escaped = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": escaped += "&amp;"
            case "<": escaped += "&lt;"
            case ">": escaped += "&gt;"
            case "\"": escaped += "&quot;"
            // HTML allows no other control characters.
            case _ where scalar.properties.generalCategory == .control: escaped += " "
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }
}

extension OpenFile {
    /// Writes a text at the position.
    fileprivate func write(_ text: String) throws {
        try write(Data(text.utf8))
    }
}
