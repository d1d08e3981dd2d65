internal import QuireModel

/// Finds out what things of one model are called in another.
///
/// A renaming identifier names what a thing was called before; one that stays over several versions is the same in all
/// of them. What has none is called the same.
struct NameMatching {
    /// A thing with a name.
    struct Item {
        let name: String
        /// The renaming identifier, if there is one.
        let identifier: String?
    }

    /// The old names by the new ones.
    private(set) var sources: [String: String] = [:]

    init(from sources: [Item], to destinations: [Item]) {
        let byName = Dictionary(
            sources.map { ($0.name, $0.name) }, uniquingKeysWith: { first, _ in first })
        let byIdentifier = Dictionary(
            sources.compactMap { item in item.identifier.map { ($0, item.name) } },
            uniquingKeysWith: { first, _ in first })
        var taken: Set<String> = []
        for item in destinations {
            guard let identifier = item.identifier,
                let source = byIdentifier[identifier] ?? byName[identifier],
                taken.insert(source).inserted
            else { continue }
            self.sources[item.name] = source
        }
        for item in destinations where self.sources[item.name] == nil {
            guard let source = byName[item.name] ?? byIdentifier[item.name],
                taken.insert(source).inserted
            else { continue }
            self.sources[item.name] = source
        }
    }
}

extension ModelLayout {
    /// The stored values of an entity that are attributes, or elements of composites, with their names and what they
    /// were called before.
    func attributeItems(of entity: EntityLayout) -> [(slot: Int, item: NameMatching.Item)] {
        var descriptions: [String: AttributeDescription] = [:]
        var next: EntityLayout? = entity
        while let current = next {
            for attribute in current.description.attributes {
                descriptions[attribute.name] = attribute
            }
            next = current.superentityNumber.map(self.entity(number:))
        }
        let composites = Dictionary(
            model.composites.map { ($0.name, $0.elements) }, uniquingKeysWith: { first, _ in first }
        )
        return entity.slots.compactMap { slot in
            guard slot.attribute != nil, slot.isStored else { return nil }
            let names = slot.name.split(separator: ".").map(String.init)
            var description = descriptions[names[0]]
            var former: [String] = []
            for (depth, name) in names.enumerated() {
                former.append(description?.renamingIdentifier ?? name)
                guard depth + 1 < names.count else { break }
                let elements = composites[description?.compositeName ?? ""] ?? []
                description = elements.first { $0.name == names[depth + 1] }
            }
            let isRenamed = former != names
            return (
                slot.index,
                NameMatching.Item(
                    name: slot.name, identifier: isRenamed ? former.joined(separator: ".") : nil)
            )
        }
    }
}
