import Quire

/// Names for files beside others.
enum SiblingName {
    /// A path beside another that nothing has: “Name 2.ext”, “Name 3.ext” ….
    static func unused(beside path: String) -> String {
        unused(beside: path) { stem, number in "\(stem) \(number + 1)" }
    }

    /// A path beside another that nothing has.
    ///
    /// - Parameter name: Makes a name without extension of the other's, for 1, 2, 3 ….
    static func unused(
        beside path: String, named name: (_ stem: Substring, _ number: Int) -> String
    ) -> String {
        let old = FileSystem.name(of: path)
        let dot = old.lastIndex(of: ".") ?? old.endIndex
        let stem = dot == old.startIndex ? old[...] : old[..<dot]
        let ending = dot == old.startIndex ? "" : old[dot...]
        var number = 1
        while true {
            let new = FileSystem.path(
                FileSystem.folder(of: path), name(stem, number) + ending)
            if !FileSystem.exists(new) { return new }
            number += 1
        }
    }
}
