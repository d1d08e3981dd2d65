package import QuireSystem

/// Model files have no place for the names of what was left out but the free keys and values of an entity: `quire.leftOut`,
/// a list. So who reads the file, or the model that a store carries, knows them too.
extension EntityDescription {
    private static var leftOutKey: String { "quire.leftOut" }

    /// The free keys and values as a model file has them.
    package var userInfoInFile: [String: PropertyListValue] {
        if leftOutNames.isEmpty { return userInfo }
        var entries = userInfo
        entries[Self.leftOutKey] = .array(leftOutNames.sorted().map { .string($0) })
        return entries
    }

    /// Takes the names of what was left out from the free keys and values of a model file.
    package mutating func takeLeftOutNames() {
        guard case .array(let names)? = userInfo.removeValue(forKey: Self.leftOutKey) else {
            return
        }
        for case .string(let name) in names { leftOutNames.insert(name) }
    }
}
