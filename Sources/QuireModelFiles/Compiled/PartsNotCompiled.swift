public import QuireModel

extension ManagedObjectModel {
    /// The parts of the model that a compiled model cannot contain but a program may need: one sentence each.
    ///
    /// Code generation settings are not included.
    public var partsNotCompiled: [String] {
        func list(_ names: [String]) -> String { names.map { "“\($0)”" }.joined(separator: ", ") }
        func names(_ isNamed: (PropertyDescription) -> Bool) -> [String] {
            entities.flatMap { entity in
                entity.properties.filter(isNamed).map { "\(entity.name).\($0.name)" }
            }
        }
        var sentences: [String] = []
        func add(_ names: [String], _ sentence: (String) -> String) {
            if !names.isEmpty { sentences.append(sentence(list(names))) }
        }
        add(composites.map(\.name)) {
            "Composites have no names in a compiled model: \($0). Each gets the name of the first attribute of its type."
        }
        add(entities.filter { $0.coreSpotlightDisplayNameExpression != nil }.map(\.name)) {
            "A compiled model does not contain Spotlight display names: \($0)."
        }
        add(entities.filter { !$0.isSyncable }.map(\.name) + names { !$0.isSyncable }) {
            "A compiled model does not record exclusions from synchronization: \($0)."
        }
        let isMirrored = usedWithCloudKit || configurations.contains(where: \.usedWithCloudKit)
        if isMirrored {
            sentences.append("A compiled model does not record that it is used with CloudKit.")
        }
        return sentences
    }
}

extension PropertyDescription {
    fileprivate var isSyncable: Bool {
        switch self {
        case .attribute(let attribute): attribute.isSyncable
        case .relationship(let relationship): relationship.isSyncable
        case .fetched(let fetched): fetched.isSyncable
        }
    }
}
