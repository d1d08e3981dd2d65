import Foundation
import Quire

/// Decides which paths a package, and thereby an archive, may contain: those that mean the same on every system and stay
/// within the package.
///
/// A path is relative and UTF-8 without control characters. Its components are neither empty nor `.` nor `..`, at most 255
/// bytes each, 1,024 in all, 32 deep. No two paths differ only in case or Unicode normalization, and none is below a file.
struct PortableNames {
    private var kinds: [String: (path: String, isFolder: Bool)] = [:]

    /// Adds a path.
    ///
    /// - Returns: The problem with it, which continues “… cannot be used: it …”, or `nil`.
    mutating func add(_ path: String, isFolder: Bool) -> String? {
        if let problem = Self.problem(with: path) { return problem }
        let components = FileSystem.components(of: path)
        for count in 1...components.count {
            let isLast = count == components.count
            let prefix = components.prefix(count).joined(separator: "/")
            let existing = kinds.updateValue(
                (prefix, isLast ? isFolder : true), forKey: Self.folded(prefix))
            guard let existing else { continue }
            // Strings that differ only in Unicode normalization compare equal; their bytes do not.
            if !existing.path.utf8.elementsEqual(prefix.utf8) {
                return "differs from “\(existing.path)” only in case or Unicode normalization"
            }
            if isLast && !(isFolder && existing.isFolder) { return "appears twice" }
            if !isLast && !existing.isFolder { return "is below the file “\(prefix)”" }
        }
        return nil
    }

    /// The reason why a path by itself is not portable.
    static func problem(with path: String) -> String? {
        if FileName(path).byteCount > 1024 { return "is longer than 1,024 bytes" }
        if path.utf8.first == UInt8(ascii: "/") { return "is absolute" }
        let components = FileSystem.components(of: path)
        if components.count > 32 { return "is more than 32 folders deep" }
        for component in components {
            if component.isEmpty { return "has an empty component" }
            if component == "." || component == ".." { return "has the component “\(component)”" }
            if FileName(component).byteCount > 255 {
                return "has a component longer than 255 bytes"
            }
            if component.utf8.contains(UInt8(ascii: "\\")) { return "contains a backslash" }
            let isControl = component.unicodeScalars.contains {
                $0.properties.generalCategory == .control
            }
            if isControl { return "contains a control character" }
        }
        return nil
    }

    /// The key under which paths are equal on systems that ignore case or Unicode normalization.
    static func folded(_ path: String) -> String {
        // Upper-casing first also folds ß into ss and ſ into s, which lower-casing alone does not.
        path.uppercased().lowercased().precomposedStringWithCanonicalMapping
    }
}
