import Foundation

/// Makes a model of the elements of a model file.
struct ModelXMLDecoder {
    let source: ModelXMLSource

    func model(from root: ModelXMLElement) throws -> ManagedObjectModel {
        guard root.name == "model" else {
            throw source.error(
                "The root element is “\(root.name)”, so this is no Core Data model; that of a model is “model”.",
                line: root.line)
        }
        try checkVocabulary(of: root)
        var model = ManagedObjectModel()
        model.versionIdentifiers =
            (root.attribute("userDefinedModelVersionIdentifier") ?? "")
            .split(separator: ModelXMLEncoder.identifierSeparator).map(String.init)
        model.usedWithCloudKit = try boolean("usedWithCloudKit", of: root)
        model.usedWithSwiftData = try boolean("usedWithSwiftData", of: root)
        for child in root.children {
            switch child.name {
            case "entity": model.entities.append(try entity(from: child))
            case "composite": model.composites.append(try composite(from: child))
            case "configuration": model.configurations.append(try configuration(from: child))
            case "fetchRequest": model.fetchRequestTemplates.append(try fetchRequest(from: child))
            default: break  // Ignored by the vocabulary.
            }
        }
        return model
    }

    /// Finds what is not in the vocabulary.
    private func checkVocabulary(of element: ModelXMLElement) throws {
        guard let known = ModelXMLVocabulary.elements[element.name] else { return }
        for (name, _) in element.attributes
        where !known.attributes.contains(name) && !known.ignoredAttributes.contains(name) {
            throw source.error(
                "Element “\(element.name)” has the attribute “\(name)”, which is not known.",
                line: element.line)
        }
        for child in element.children where !known.ignoredChildren.contains(child.name) {
            guard known.children.contains(child.name) else {
                throw source.error(
                    "Element “\(element.name)” contains the element “\(child.name)”, "
                        + "which is not known there.", line: child.line)
            }
            try checkVocabulary(of: child)
        }
    }

    // MARK: - Parts of a model

    private func entity(from element: ModelXMLElement) throws -> EntityDescription {
        var entity = EntityDescription(name: try required("name", of: element))
        entity.managedObjectClassName = element.attribute("representedClassName")
        entity.isAbstract = try boolean("isAbstract", of: element)
        entity.superentityName = unlessEmpty("parentEntity", of: element)
        // Xcode calls the renaming identifier an element's identifier; stores of such models show it.
        entity.renamingIdentifier =
            element.attribute("elementID") ?? element.attribute("renamingIdentifier")
        entity.versionHashModifier = element.attribute("versionHashModifier")
        entity.isSyncable = try boolean("syncable", of: element)
        entity.codeGenerationType = element.attribute("codeGenerationType")
        entity.coreSpotlightDisplayNameExpression =
            element.attribute("coreSpotlightDisplayNameExpression")
        for child in element.children {
            switch child.name {
            case "attribute":
                entity.properties.append(
                    .attribute(try attribute(from: child, in: "entity “\(entity.name)”")))
            case "relationship":
                entity.properties.append(
                    .relationship(try relationship(from: child, in: entity.name)))
            case "fetchedProperty":
                entity.properties.append(.fetched(try fetchedProperty(from: child)))
            case "fetchIndex": entity.indexes.append(try index(from: child))
            case "compoundIndexes":
                entity.compoundIndexes += try child.children.map(values)
            case "uniquenessConstraints":
                entity.uniquenessConstraints += try child.children.map(values)
            case "userInfo": entity.userInfo = try userInfo(from: child)
            default: break  // The vocabulary has no others.
            }
        }
        entity.indexes += [FetchIndexDescription](takingFullTextFrom: &entity.userInfo)
        return entity
    }

    private func fetchedProperty(
        from element: ModelXMLElement
    ) throws -> FetchedPropertyDescription {
        guard let request = element.children.first(where: { $0.name == "fetchRequest" }) else {
            throw source.error("A fetched property has no fetch request.", line: element.line)
        }
        var fetched = FetchedPropertyDescription(
            name: try required("name", of: element), fetchRequest: try fetchRequest(from: request))
        fetched.isOptional = try boolean("optional", of: element)
        fetched.isSyncable = try boolean("syncable", of: element)
        fetched.userInfo = try userInfo(in: element)
        return fetched
    }

    private func fetchRequest(from element: ModelXMLElement) throws -> FetchRequestTemplate {
        var request = FetchRequestTemplate(
            name: try required("name", of: element), entityName: try required("entity", of: element)
        )
        request.predicateFormat = unlessEmpty("predicateString", of: element)
        request.fetchLimit = try integer("fetchLimit", of: element) ?? 0
        request.fetchBatchSize = try integer("fetchBatchSize", of: element) ?? 0
        // Unlike elsewhere, an absent attribute means what a new fetch request does: compiled models show it.
        request.includesSubentities = try boolean("includeSubentities", of: element, absent: true)
        request.includesPropertyValues =
            try boolean("includePropertyValues", of: element, absent: true)
        request.includesPendingChanges =
            try boolean("includesPendingChanges", of: element, absent: true)
        request.returnsObjectsAsFaults =
            try boolean("returnObjectsAsFaults", of: element, absent: true)
        request.returnsDistinctResults = try boolean("returnDistinctResults", of: element)
        request.resultType = element.attribute("resultType")
        return request
    }

    private func index(from element: ModelXMLElement) throws -> FetchIndexDescription {
        var index = FetchIndexDescription(name: try required("name", of: element), elements: [])
        index.partialIndexPredicate = unlessEmpty("partialIndexPredicate", of: element)
        for child in element.children {
            var part: FetchIndexDescription.Element
            if let property = child.attribute("property") {
                part = .init(propertyName: property)
            } else {
                part = .init(expression: try required("expression", of: child))
            }
            part.expressionType = child.attribute("expressionType")
            switch child.attribute("order") {
            case "ascending", nil: part.isAscending = true
            case "descending": part.isAscending = false
            case let order?: throw unknown(order, for: "order", of: child)
            }
            switch child.attribute("type")?.lowercased() {
            case "binary", nil: part.kind = .binary
            case "rtree": part.kind = .rtree
            case let type?: throw unknown(type, for: "type", of: child)
            }
            index.elements.append(part)
        }
        return index
    }

    private func composite(from element: ModelXMLElement) throws -> CompositeDescription {
        let name = try required("name", of: element)
        return CompositeDescription(
            name: name,
            elements: try element.children.map {
                try attribute(from: $0, in: "composite “\(name)”")
            })
    }

    private func configuration(
        from element: ModelXMLElement
    ) throws -> ManagedObjectModel.Configuration {
        var configuration = ManagedObjectModel.Configuration(
            name: try required("name", of: element),
            entityNames: try element.children.map { try required("name", of: $0) })
        configuration.usedWithCloudKit = try boolean("usedWithCloudKit", of: element)
        return configuration
    }

    /// The `value` attributes of the elements within.
    private func values(of element: ModelXMLElement) throws -> [String] {
        try element.children.map { try required("value", of: $0) }
    }

    /// The entries of the `userInfo` within an element.
    func userInfo(in element: ModelXMLElement) throws -> [String: String] {
        guard let child = element.children.first(where: { $0.name == "userInfo" }) else {
            return [:]
        }
        return try userInfo(from: child)
    }

    private func userInfo(from element: ModelXMLElement) throws -> [String: String] {
        var entries: [String: String] = [:]
        for entry in element.children {
            entries[try required("key", of: entry)] = entry.attribute("value") ?? ""
        }
        return entries
    }
}
