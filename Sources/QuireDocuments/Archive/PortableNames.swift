import Foundation
import Quire

/// Decides which paths may be in a package, and thereby in an archive: those that mean the same on every system and
/// cannot lead anywhere else.
///
/// A path is relative, its components are neither empty nor `.` nor `..`, UTF-8 without control characters, of at most
/// 255 bytes each, 1,024 in all, 32 deep. No two differ only in case or in how accents are composed, and none is
/// below a file.
struct PortableNames {
    private var kinds: [String: (path: String, isFolder: Bool)] = [:]

    /// Adds a path.
    ///
    /// - Returns: What is wrong with it, to continue “… cannot be used: it …”, or `nil`.
    mutating func add(_ path: String, isFolder: Bool) -> String? {
        if let problem = Self.problem(with: path) { return problem }
        let components = path.split(separator: "/")
        for count in 1...components.count {
            let isLast = count == components.count
            let prefix = components.prefix(count).joined(separator: "/")
            let existing = kinds.updateValue(
                (prefix, isLast ? isFolder : true), forKey: Self.folded(prefix))
            guard let existing else { continue }
            // Strings compare equal if only the form of accents differs; their bytes do not.
            if !existing.path.utf8.elementsEqual(prefix.utf8) {
                return "differs from “\(existing.path)” only in case or in the form of accents"
            }
            if isLast && !(isFolder && existing.isFolder) { return "is there twice" }
            if !isLast && !existing.isFolder { return "is below the file “\(prefix)”" }
        }
        return nil
    }

    /// What is wrong with a path by itself.
    static func problem(with path: String) -> String? {
        if path.utf8.count > 1024 { return "is longer than 1,024 bytes" }
        if path.hasPrefix("/") { return "is absolute" }
        let components = path.split(separator: "/", omittingEmptySubsequences: false)
        if components.count > 32 { return "is more than 32 folders deep" }
        for component in components {
            if component.isEmpty { return "has an empty component" }
            if component == "." || component == ".." { return "has the component “\(component)”" }
            if component.utf8.count > 255 { return "has a component longer than 255 bytes" }
            if component.contains("\\") { return "has a backslash" }
            let isControl = component.unicodeScalars.contains {
                $0.properties.generalCategory == .control
            }
            if isControl { return "has a control character" }
        }
        return nil
    }

    /// A path that is equal to those that mean the same on systems that ignore case or the form of accents.
    static func folded(_ path: String) -> String {
        // Upper-casing first unites what lower-casing alone does not: ß and ss, ſ and s.
        path.uppercased().lowercased().precomposedStringWithCanonicalMapping
    }
}
