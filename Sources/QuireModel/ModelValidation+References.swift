internal import QuireSystem

extension ModelValidation {
    // MARK: - Relationships

    mutating func check(_ relationship: RelationshipDescription, of entity: EntityDescription) {
        let name = relationship.name
        let title = "“\(entity.name).\(name)”"
        func complain(_ message: String) { fail(message, entity: entity.name, property: name) }

        checkTexts(
            [relationship.renamingIdentifier, relationship.versionHashModifier].compactMap { $0 }
                + relationship.userInfo.texts,
            of: "A text of relationship \(title)", entity: entity.name, property: name)
        checking(.counts(entity: entity.name, relationship: name)) {
            $0.checkCounts(of: relationship, entity: entity.name, title: title)
        }
        if relationship.isOrdered && !relationship.isToMany {
            remarks.append(
                "Relationship \(title) is ordered, but a to-one relationship cannot be.")
        }
        guard entities[relationship.destinationEntityName] != nil else {
            complain(
                "Relationship \(title) refers to entity “\(relationship.destinationEntityName)”, "
                    + "which does not exist.")
            return
        }
        if let inverseName = relationship.inverseName {
            checkInverse(named: inverseName, of: relationship, entity: entity.name)
        }
    }

    private mutating func checkCounts(
        of relationship: RelationshipDescription, entity: String, title: String
    ) {
        func complain(_ message: String) {
            fail(message, entity: entity, property: relationship.name)
        }
        if relationship.minimumCount < 0 || relationship.maximumCount < 0 {
            complain("Relationship \(title) has a negative minimum or maximum count.")
        }
        if relationship.maximumCount > 0, relationship.minimumCount > relationship.maximumCount {
            complain(
                "Relationship \(title) has a minimum count of \(relationship.minimumCount), greater than "
                    + "its maximum of \(relationship.maximumCount).")
        }
        if !relationship.isToMany,
            relationship.maximumCount > 1 || relationship.minimumCount > 1
        {
            complain("To-one relationship \(title) has a minimum or maximum count above 1.")
        }
    }

    private mutating func checkInverse(
        named inverseName: String, of relationship: RelationshipDescription, entity: String
    ) {
        let name = relationship.name
        let destination = relationship.destinationEntityName
        let title = "“\(entity).\(name)”"
        func complain(_ message: String) { fail(message, entity: entity, property: name) }

        if let named = relationship.inverseEntityName, entities[named] == nil {
            complain(
                "Relationship \(title) names entity “\(named)” for its inverse, which does not exist."
            )
        }
        guard let found = property(named: inverseName, of: destination) else {
            complain(
                "The inverse of relationship \(title) is “\(destination).\(inverseName)”, "
                    + "which does not exist.")
            return
        }
        guard case .relationship(let inverse) = found.property else {
            complain(
                "The inverse of relationship \(title) is “\(destination).\(inverseName)”, "
                    + "which is not a relationship.")
            return
        }
        guard entities[inverse.destinationEntityName] != nil else { return }  // Reported there.
        let back = inverse.destinationEntityName
        guard lineage(of: entity).contains(back) || lineage(of: back).contains(entity) else {
            complain(
                "The inverse “\(found.owner).\(inverseName)” of relationship \(title) refers to “\(back)” "
                    + "instead of “\(entity)”.")
            return
        }
        if pointsBack(inverse, to: name, of: entity) { return }
        // Xcode lets a to-one relationship name a to-one inverse that is paired with another relationship.
        // The layout treats it as a relationship without an inverse.
        if !relationship.isToMany, !inverse.isToMany, let paired = inverse.inverseName,
            let partner = self.relationship(named: paired, of: back),
            pointsBack(partner.relationship, to: inverseName, of: found.owner)
        {
            return
        }
        complain(
            "The inverse of relationship \(title) is “\(found.owner).\(inverseName)”, whose own inverse is "
                + (inverse.inverseName.map { "“\(back).\($0)”." } ?? "missing."))
    }

    /// Whether a relationship's inverse is the given relationship of the declaring entity.
    private func pointsBack(
        _ relationship: RelationshipDescription, to name: String, of owner: String
    ) -> Bool {
        relationship.inverseName == name
            && self.relationship(named: name, of: relationship.destinationEntityName)?.owner
                == owner
    }

    // MARK: - Constraints and indexes

    mutating func checkReferences(of entity: EntityDescription) {
        for constraint in entity.uniquenessConstraints {
            let title = "A uniqueness constraint of entity “\(entity.name)”"
            if constraint.isEmpty { fail("\(title) is empty.", entity: entity.name) }
            for name in constraint {
                switch resolve(name, of: entity.name) {
                case .single: break
                case .several, .missing:
                    fail(
                        "\(title) names “\(name)”, which is not a stored attribute or to-one relationship "
                            + "of the entity.", entity: entity.name, property: name)
                }
            }
        }
        for (position, names) in entity.compoundIndexes.enumerated() {
            checking(.compoundIndex(entity: entity.name, position: position)) {
                for name in names {
                    $0.check(
                        name, in: "A compound index of entity “\(entity.name)”", of: entity.name)
                }
            }
        }
        var indexNames: Set<String> = []
        for (position, index) in entity.indexes.enumerated() {
            let isNew = indexNames.insert(index.name).inserted
            checking(.index(entity: entity.name, position: position)) {
                $0.check(index, of: entity, isNew: isNew)
            }
        }
    }

    private mutating func check(
        _ index: FetchIndexDescription, of entity: EntityDescription, isNew: Bool
    ) {
        let title = "Index “\(index.name)” of entity “\(entity.name)”"
        if index.name.isEmpty { fail("\(title) has no name.", entity: entity.name) }
        check(index, of: entity, title: title)
        if index.partialIndexPredicate?.isEmpty == true {
            fail("\(title) has an empty predicate.", entity: entity.name)
        }
        if !isNew { fail("\(title) is declared several times.", entity: entity.name) }
        checkTexts(
            [index.name] + [index.partialIndexPredicate].compactMap { $0 }
                + index.elements.flatMap { [$0.expression, $0.expressionType].compactMap { $0 } },
            of: title, entity: entity.name)
        for element in index.elements {
            switch (element.propertyName, element.expression) {
            case (let name?, nil):
                check(name, in: title, of: entity.name)
            case (nil, let expression?):
                if expression.isEmpty {
                    fail("\(title) has an empty expression.", entity: entity.name)
                }
            default:
                fail(
                    "\(title) has an element that specifies neither a property nor an expression, or both.",
                    entity: entity.name)
            }
        }
    }

    /// Checks a name in an index. A property of another entity is accepted, as Core Data's stores may have such an index;
    /// none is created here.
    private mutating func check(_ name: String, in title: String, of entity: String) {
        if name == FetchIndexDescription.objectItself || resolve(name, of: entity) != .missing {
            return
        }
        if property(named: name, of: entity) == nil,
            properties.contains(where: { $0.value[name] != nil })
        {
            remarks.append(
                "\(title) names “\(name)”, which is a property of another entity; the index is not created."
            )
        } else {
            fail(
                "\(title) names “\(name)”, which is not a stored property of the entity.",
                entity: entity,
                property: name)
        }
    }

    /// Checks that all elements of an R-tree or full-text index are attributes of suitable types.
    private mutating func check(
        _ index: FetchIndexDescription, of entity: EntityDescription, title: String
    ) {
        let kinds = Set(index.elements.map(\.kind))
        if kinds.subtracting([.binary]).isEmpty { return }
        let isFullText = kinds.contains(.fullText)
        let what = isFullText ? "a full-text index" : "an R-tree"
        if kinds.count > 1 {
            fail("\(title) has elements of different kinds.", entity: entity.name)
        }
        if !isFullText && index.elements.count > 5 {
            fail("\(title) is an R-tree with more than five attributes.", entity: entity.name)
        }
        if index.partialIndexPredicate != nil {
            fail("\(title) has a predicate, which \(what) cannot have.", entity: entity.name)
        }
        for element in index.elements {
            guard let name = element.propertyName else {
                fail(
                    "\(title) has an expression, which \(what) cannot have.", entity: entity.name)
                continue
            }
            guard resolve(name, of: entity.name) == .single else {
                if name == FetchIndexDescription.objectItself
                    || resolve(name, of: entity.name) == .several
                {
                    fail(
                        "\(title) names “\(name)”, which is not a single attribute.",
                        entity: entity.name, property: name)
                }
                continue
            }
            if !Self.fits(type(of: name, in: entity.name), isFullText: isFullText) {
                fail(
                    "\(title) names “\(name)”; \(what) can contain only "
                        + (isFullText ? "text." : "numbers and dates."),
                    entity: entity.name, property: name)
            }
        }
    }

    private static func fits(_ type: AttributeType?, isFullText: Bool) -> Bool {
        switch type {
        case .string: isFullText
        case .integer16, .integer32, .integer64, .decimal, .double, .float, .date: !isFullText
        default: false
        }
    }

    /// The type of an attribute, or of a composite's element by dotted name.
    private func type(of name: String, in entity: String) -> AttributeType? {
        let parts = name.split(separator: ".").map(String.init)
        guard let first = parts.first, let found = property(named: first, of: entity),
            case .attribute(var attribute) = found.property
        else { return nil }
        for part in parts.dropFirst() {
            guard
                let element = composites[attribute.compositeName ?? ""]?.elements
                    .first(where: { $0.name == part })
            else { return nil }
            attribute = element
        }
        return attribute.type
    }

    private enum Resolution {
        /// A stored attribute or element of a composite, or a to-one relationship.
        case single
        /// A stored property of another kind.
        case several
        /// No stored property.
        case missing
    }

    /// Resolves a property's name, or the dotted name of a composite's element.
    private func resolve(_ name: String, of entity: String) -> Resolution {
        let parts = name.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard let first = parts.first, let found = property(named: first, of: entity) else {
            return .missing
        }
        switch found.property {
        case .fetched: return .missing
        case .relationship(let relationship):
            if relationship.isTransient || parts.count > 1 { return .missing }
            return relationship.isToMany ? .several : .single
        case .attribute(var attribute):
            if attribute.isTransient { return .missing }
            for part in parts.dropFirst() {
                guard attribute.type == .composite,
                    let element = composites[attribute.compositeName ?? ""]?.elements
                        .first(where: { $0.name == part }), !element.isTransient
                else { return .missing }
                attribute = element
            }
            return attribute.type == .composite ? .several : .single
        }
    }

    // MARK: - Fetch requests and configurations

    mutating func check(_ fetched: FetchedPropertyDescription, of entity: EntityDescription) {
        let title = "fetched property “\(entity.name).\(fetched.name)”"
        checkTexts(
            fetched.userInfo.texts, of: "A text of \(title)", entity: entity.name,
            property: fetched.name)
        checking(.fetchedProperty(entity: entity.name, name: fetched.name)) {
            $0.check(
                fetched.fetchRequest, title: "The request of \(title)", entity: entity.name,
                property: fetched.name)
        }
    }

    mutating func checkTemplates() {
        var names: Set<String> = []
        for (position, template) in model.fetchRequestTemplates.enumerated() {
            let title = "Fetch request template “\(template.name)”"
            let isNew = names.insert(template.name).inserted
            checking(.template(position: position)) {
                if template.name.isEmpty { $0.fail("A fetch request template has no name.") }
                if !isNew { $0.fail("\(title) is declared several times.") }
                $0.check(template, title: title, entity: nil, property: nil)
            }
        }
    }

    private mutating func check(
        _ request: FetchRequestTemplate, title: String, entity: String?, property: String?
    ) {
        if entities[request.entityName] == nil {
            fail(
                "\(title) refers to entity “\(request.entityName)”, which does not exist.",
                entity: entity, property: property)
        }
        if request.predicateFormat?.isEmpty == true {
            fail("\(title) has an empty predicate.", entity: entity, property: property)
        }
        if request.fetchLimit < 0 || request.fetchOffset < 0 || request.fetchBatchSize < 0 {
            fail(
                "\(title) has a negative limit, offset or batch size.", entity: entity,
                property: property)
        }
        let sorted = request.sortKeys.map(\.expression)
        let prefetched = request.relationshipKeyPathsForPrefetching
        if sorted.contains("") || prefetched.contains(where: { $0.isEmpty || $0.contains(",") }) {
            fail(
                "\(title) sorts by or prefetches an empty key path, or one with a comma.",
                entity: entity, property: property)
        }
        checkTexts(
            [request.name] + [request.predicateFormat, request.resultType].compactMap { $0 }
                + sorted + prefetched,
            of: title, entity: entity, property: property)
    }

    mutating func checkConfigurations() {
        var names: Set<String> = []
        for configuration in model.configurations {
            let title = "Configuration “\(configuration.name)”"
            if configuration.name.isEmpty { fail("A configuration has no name.") }
            if !names.insert(configuration.name).inserted {
                fail("\(title) is declared several times.")
            }
            checkTexts([configuration.name], of: title)
            for name in configuration.entityNames where entities[name] == nil {
                checking(.member(configuration: configuration.name, entity: name)) {
                    $0.fail("\(title) names entity “\(name)”, which does not exist.", entity: name)
                }
            }
        }
    }

    // MARK: - Texts

    /// Reports texts that XML, and so a model file, cannot represent.
    mutating func checkTexts(
        _ texts: [String], of title: String, entity: String? = nil, property: String? = nil
    ) {
        for text in texts where !ModelNames.isWritable(text) {
            fail(
                "\(title) contains a control character, which model files cannot contain.",
                entity: entity, property: property)
        }
    }
}
