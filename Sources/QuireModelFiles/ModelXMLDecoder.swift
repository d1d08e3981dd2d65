import Foundation
internal import QuireModel
internal import QuireSystem

/// Makes a model of the elements of a model file.
///
/// Refuses what objects could not be read by: names that are missing, types that are not known. Anything else that is not
/// understood is left out, with a remark.
struct ModelXMLDecoder {
    let source: ModelXMLSource
    /// What is odd: sentences.
    var remarks: [String]

    mutating func model(from root: ModelXMLElement) throws -> ManagedObjectModel {
        guard root.name == "model" else {
            throw source.error(
                "The root element is “\(root.name)”, so this is no Core Data model; that of a model is “model”.",
                line: root.line)
        }
        checkVocabulary(of: root)
        var model = ManagedObjectModel()
        model.versionIdentifiers =
            (root.attribute("userDefinedModelVersionIdentifier") ?? "")
            .split(separator: ModelXMLEncoder.identifierSeparator).map(String.init)
        model.usedWithCloudKit = boolean("usedWithCloudKit", of: root)
        model.usedWithSwiftData = boolean("usedWithSwiftData", of: root)
        for child in root.children {
            switch child.name {
            case "entity": model.entities.append(try entity(from: child))
            case "composite": model.composites.append(try composite(from: child))
            case "configuration": model.configurations.append(try configuration(from: child))
            case "fetchRequest":
                let name = child.attribute("name") ?? ""
                if let request = try fetchRequest(from: child, of: "The template “\(name)”") {
                    model.fetchRequestTemplates.append(request)
                }
            default: break  // Ignored by the vocabulary.
            }
        }
        return model
    }

    /// Remarks on what is not in the vocabulary.
    private mutating func checkVocabulary(of element: ModelXMLElement) {
        guard let known = ModelXMLVocabulary.elements[element.name] else { return }
        for (name, _) in element.attributes
        where !known.attributes.contains(name) && !known.ignoredAttributes.contains(name) {
            remark(
                "Element “\(element.name)” has the attribute “\(name)”, which is not known and is left out.",
                on: element)
        }
        for child in element.children where !known.ignoredChildren.contains(child.name) {
            if known.children.contains(child.name) {
                checkVocabulary(of: child)
            } else {
                remark(
                    "Element “\(element.name)” contains the element “\(child.name)”, "
                        + "which is not known there and is left out.", on: child)
            }
        }
    }

    mutating func remark(_ message: String, on element: ModelXMLElement) {
        remarks.append(source.remark(message, line: element.line))
    }

    // MARK: - Parts of a model

    private mutating func entity(from element: ModelXMLElement) throws -> EntityDescription {
        var entity = EntityDescription(name: try required("name", of: element))
        entity.managedObjectClassName = element.attribute("representedClassName")
        entity.isAbstract = boolean("isAbstract", of: element)
        entity.superentityName = unlessEmpty("parentEntity", of: element)
        // Xcode calls the renaming identifier an element's identifier; stores of such models show it.
        entity.renamingIdentifier =
            element.attribute("elementID") ?? element.attribute("renamingIdentifier")
        entity.versionHashModifier = element.attribute("versionHashModifier")
        entity.isSyncable = boolean("syncable", of: element)
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
                if let fetched = try fetchedProperty(from: child, in: entity.name) {
                    entity.properties.append(.fetched(fetched))
                }
            case "fetchIndex":
                if let index = index(from: child) {
                    entity.indexes.append(index)
                } else {
                    entity.leftOutNames.insert(child.attribute("name") ?? "")
                }
            case "compoundIndexes": entity.compoundIndexes += lists(in: child)
            case "uniquenessConstraints": entity.uniquenessConstraints += lists(in: child)
            default: break  // Read below, or remarked on.
            }
        }
        var entries = userInfo(in: element)
        entity.indexes += [FetchIndexDescription](takingFullTextFrom: &entries)
        entity.userInfo = [String: PropertyListValue](modelXMLEntries: entries)
        entity.takeLeftOutNames()
        return entity
    }

    private mutating func fetchedProperty(
        from element: ModelXMLElement, in entity: String
    ) throws -> FetchedPropertyDescription? {
        let name = try required("name", of: element)
        let subject = "The fetched property “\(entity).\(name)”"
        guard let child = element.children.first(where: { $0.name == "fetchRequest" }) else {
            remark("\(subject) has no fetch request and is left out.", on: element)
            return nil
        }
        guard let request = try fetchRequest(from: child, of: subject) else { return nil }
        var fetched = FetchedPropertyDescription(name: name, fetchRequest: request)
        fetched.isOptional = boolean("optional", of: element)
        fetched.isSyncable = boolean("syncable", of: element)
        fetched.userInfo = [String: PropertyListValue](modelXMLEntries: userInfo(in: element))
        return fetched
    }

    /// A fetch request; `nil` if it does not say what it fetches.
    ///
    /// - Parameter subject: What a remark calls the request.
    private mutating func fetchRequest(
        from element: ModelXMLElement, of subject: String
    ) throws -> FetchRequestTemplate? {
        guard let entity = unlessEmpty("entity", of: element) else {
            remark("\(subject) has no entity and is left out.", on: element)
            return nil
        }
        var request = FetchRequestTemplate(
            name: try required("name", of: element), entityName: entity)
        request.predicateFormat = unlessEmpty("predicateString", of: element)
        request.fetchLimit = integer("fetchLimit", of: element) ?? 0
        request.fetchBatchSize = integer("fetchBatchSize", of: element) ?? 0
        // Unlike elsewhere, an absent attribute means what a new fetch request does: compiled models show it.
        request.includesSubentities = boolean("includeSubentities", of: element, absent: true)
        request.includesPropertyValues = boolean("includePropertyValues", of: element, absent: true)
        request.includesPendingChanges =
            boolean("includesPendingChanges", of: element, absent: true)
        request.returnsObjectsAsFaults = boolean("returnObjectsAsFaults", of: element, absent: true)
        request.returnsDistinctResults = boolean("returnDistinctResults", of: element)
        request.resultType = element.attribute("resultType")
        return request
    }

    /// An index; `nil` if it is not known how it is meant.
    private mutating func index(from element: ModelXMLElement) -> FetchIndexDescription? {
        guard let name = unlessEmpty("name", of: element) else {
            remark("An index has no name and is left out.", on: element)
            return nil
        }
        var index = FetchIndexDescription(name: name, elements: [])
        index.partialIndexPredicate = unlessEmpty("partialIndexPredicate", of: element)
        for child in element.children where child.name == "fetchIndexElement" {
            var part: FetchIndexDescription.Element
            if let property = child.attribute("property") {
                part = .init(propertyName: property)
            } else if let expression = child.attribute("expression") {
                part = .init(expression: expression)
            } else {
                remark(
                    "An element of the index “\(name)” names no property; the index is left out.",
                    on: child)
                return nil
            }
            part.expressionType = child.attribute("expressionType")
            switch child.attribute("order") {
            case "ascending", nil: part.isAscending = true
            case "descending": part.isAscending = false
            case let order?: remarkUnknown(order, for: "order", of: child, takenFor: "ascending")
            }
            switch child.attribute("type")?.lowercased() {
            case "binary", nil: part.kind = .binary
            case "rtree": part.kind = .rtree
            case let type?:
                remark(
                    "The index “\(name)” is of a kind that is not known, “\(type)”, and is left out.",
                    on: child)
                return nil
            }
            index.elements.append(part)
        }
        return index
    }

    private mutating func composite(from element: ModelXMLElement) throws -> CompositeDescription {
        let name = try required("name", of: element)
        return CompositeDescription(
            name: name,
            elements: try element.children.filter { $0.name == "attribute" }.map {
                try attribute(from: $0, in: "composite “\(name)”")
            })
    }

    private mutating func configuration(
        from element: ModelXMLElement
    ) throws -> ManagedObjectModel.Configuration {
        var configuration = ManagedObjectModel.Configuration(
            name: try required("name", of: element),
            entityNames: element.children.compactMap { $0.attribute("name") })
        configuration.usedWithCloudKit = boolean("usedWithCloudKit", of: element)
        return configuration
    }

    /// The `value` attributes two elements deep.
    private func lists(in element: ModelXMLElement) -> [[String]] {
        element.children.map { list in list.children.compactMap { $0.attribute("value") } }
            .filter { !$0.isEmpty }
    }

    /// The entries of the `userInfo` within an element.
    func userInfo(in element: ModelXMLElement) -> [String: String] {
        var entries: [String: String] = [:]
        for child in element.children where child.name == "userInfo" {
            for entry in child.children {
                guard let key = entry.attribute("key") else { continue }
                entries[key] = entry.attribute("value") ?? ""
            }
        }
        return entries
    }
}
