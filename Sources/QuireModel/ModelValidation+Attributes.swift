import Foundation
internal import QuireSystem

extension ModelValidation {
    /// Checks an entity's own properties one by one.
    mutating func checkProperties(of entity: EntityDescription) {
        for property in entity.properties {
            if let reason = ModelNames.objection(toPropertyName: property.name) {
                fail(
                    "The property name “\(entity.name).\(property.name)” \(reason).",
                    entity: entity.name, property: property.name)
            }
            switch property {
            case .attribute(let attribute):
                check(attribute, at: Place(entity: entity.name, property: attribute.name))
            case .relationship(let relationship): check(relationship, of: entity)
            case .fetched(let fetched): check(fetched, of: entity)
            }
        }
    }

    /// The owner of an attribute: an entity, or a composite as its element.
    struct Place: Hashable {
        var entity: String?
        var composite: String?
        var property: String
        var title: String

        init(entity: String, property: String) {
            self.entity = entity
            self.property = property
            title = "“\(entity).\(property)”"
        }

        init(composite: String, element: String) {
            self.composite = composite
            property = element
            title = "“\(element)” of composite “\(composite)”"
        }
    }

    mutating func fail(_ message: String, at place: Place) {
        fail(message, entity: place.entity, property: place.property)
    }

    mutating func check(_ attribute: AttributeDescription, at place: Place) {
        switch attribute.type {
        case .undefined where !attribute.isTransient:
            fail(
                "Attribute \(place.title) has no type; only a transient attribute may have none.",
                at: place)
        case .objectID where !attribute.isTransient:
            fail(
                "Attribute \(place.title) is of type object identifier, which stores cannot keep; "
                    + "make it transient or a relationship.", at: place)
        case .composite:
            if composites[attribute.compositeName ?? ""] == nil {
                fail(
                    attribute.compositeName.map {
                        "Attribute \(place.title) uses composite “\($0)”, which does not exist."
                    } ?? "Composite attribute \(place.title) does not specify a composite.",
                    at: place)
            }
        default: break
        }
        checking(.range(place)) { $0.checkRange(of: attribute, at: place) }
        checking(.defaultValue(place)) { $0.checkDefault(of: attribute, at: place) }
        checkDerivation(of: attribute, at: place)
        if let pattern = attribute.regularExpression,
            (try? RegularExpressionCache.expression(for: pattern)) == nil
        {
            checking(.regularExpression(place)) {
                $0.fail(
                    "The regular expression “\(pattern)” of attribute \(place.title) is malformed.",
                    at: place)
            }
        }
        checkTexts(
            [
                attribute.regularExpression, attribute.valueTransformerName,
                attribute.customClassName, attribute.derivationExpression, attribute.compositeName,
                attribute.renamingIdentifier, attribute.versionHashModifier,
            ].compactMap { $0 } + attribute.userInfo.texts,
            of: "A text of attribute \(place.title)", entity: place.entity, property: place.property
        )
    }

    // MARK: - Default and range

    private mutating func checkDefault(of attribute: AttributeDescription, at place: Place) {
        let value = attribute.defaultValue
        if value.isNull { return }
        switch attribute.type {
        case .undefined, .objectID, .composite:
            fail(
                "Attribute \(place.title) has a default value, which an attribute of type "
                    + "\(attribute.type.title) cannot have.", at: place)
            return
        default: break
        }
        guard isInOwnForm(value, of: attribute) else {
            fail(
                "The default value of attribute \(place.title) is not a valid "
                    + "\(attribute.type.title): \(value.display).", at: place)
            return
        }
        if case .string(let text) = value {
            checkTexts(
                [text], of: "The default value of attribute \(place.title)", entity: place.entity,
                property: place.property)
            return  // Deliberate: a too short default makes the user enter a text.
        }
        // The same may hold for an out-of-range number or date, which Core Data accepts; or it is a mistake.
        if attribute.isLess(value, than: attribute.minimum)
            || attribute.isLess(attribute.maximum, than: value)
        {
            remarks.append(
                "The default value \(value.display) of attribute \(place.title) is out of its range: "
                    + "an object cannot be saved with it.")
        }
    }

    private mutating func checkRange(of attribute: AttributeDescription, at place: Place) {
        var bounds = attribute
        if attribute.type == .string { bounds.type = .integer64 }
        for (bound, name) in [(attribute.minimum, "minimum"), (attribute.maximum, "maximum")]
        where !bound.isNull {
            switch attribute.type {
            case .integer16, .integer32, .integer64, .decimal, .double, .float, .date, .string:
                if !isInOwnForm(bound, of: bounds) {
                    fail(
                        "The \(name) of attribute \(place.title) is not a valid "
                            + "\(bounds.type.title): \(bound.display).", at: place)
                    return
                }
                if attribute.type == .string, case .integer(let length) = bound, length < 0 {
                    fail("The \(name) length of attribute \(place.title) is negative.", at: place)
                }
            default:
                fail(
                    "Attribute \(place.title) has a \(name), which an attribute of type "
                        + "\(attribute.type.title) cannot have.", at: place)
                return
            }
        }
        if bounds.isLess(attribute.maximum, than: attribute.minimum) {
            fail(
                "The minimum \(attribute.minimum.display) of attribute \(place.title) is greater than "
                    + "its maximum \(attribute.maximum.display).", at: place)
        }
    }

    /// Whether a value is in the graph's form for the attribute and needs no conversion.
    private func isInOwnForm(_ value: AttributeValue, of attribute: AttributeDescription) -> Bool {
        guard let coerced = try? attribute.coerce(value) else { return false }
        return coerced == value
    }

    // MARK: - Derived attributes

    private mutating func checkDerivation(of attribute: AttributeDescription, at place: Place) {
        guard let expression = attribute.derivationExpression else { return }
        if expression.isEmpty {
            fail("Derived attribute \(place.title) has no expression.", at: place)
            return
        }
        if attribute.isTransient {
            fail(
                "Derived attribute \(place.title) is transient, but the store computes its values.",
                at: place)
            return
        }
        switch attribute.type {
        case .undefined, .transformable, .objectID, .composite:
            fail(
                "Attribute \(place.title) is derived, which an attribute of type "
                    + "\(attribute.type.title) cannot be.", at: place)
        default:
            if let entity = place.entity { checkSource(of: attribute, expression, entity: entity) }
        }
    }

    // MARK: - Composites

    mutating func checkComposites() {
        var names: Set<String> = []
        for composite in model.composites {
            let name = composite.name
            if let reason = ModelNames.objection(toName: name) {
                fail("The composite name “\(name)” \(reason).")
            }
            if !names.insert(name).inserted {
                fail("Several composites are named “\(name)”.")
            }
            var elements: Set<String> = []
            for element in composite.elements {
                if let reason = ModelNames.objection(toPropertyName: element.name) {
                    fail(
                        "The element name “\(element.name)” of composite “\(name)” \(reason).",
                        property: element.name)
                }
                if !elements.insert(element.name).inserted {
                    fail(
                        "Composite “\(name)” has several elements named “\(element.name)”.",
                        property: element.name)
                }
                let place = Place(composite: name, element: element.name)
                check(element, at: place)
                if element.derivationExpression != nil {
                    fail("Element \(place.title) is derived, but elements cannot be.", at: place)
                }
            }
        }
        for composite in model.composites
        where slotCount(ofComposite: composite.name, depth: 1) == nil {
            fail("Composite “\(composite.name)” contains itself, or is nested too deeply.")
        }
    }

    // MARK: - Counting

    /// The number of slots of a property in an entity's layout.
    mutating func slotCount(of property: PropertyDescription) -> Int {
        switch property {
        case .attribute(let attribute) where attribute.type == .composite:
            slotCount(ofComposite: attribute.compositeName ?? "", depth: 1) ?? 0
        case .attribute, .relationship, .fetched: 1
        }
    }

    /// The number of values in a composite; `nil` if it contains itself or is nested too deeply.
    ///
    /// Nested composites multiply, so the sum stops at a bound. Each composite is measured once, and an empty one counts as
    /// 1: otherwise a small file could take exponential time to lay out.
    private mutating func slotCount(ofComposite name: String, depth: Int) -> Int? {
        switch compositeMeasures[name] {
        case .measured(let count, let nesting)?:
            return depth + nesting <= Self.maximumDepth ? count : nil
        case .beingMeasured?, .unbounded?: return nil
        case nil: break
        }
        guard let composite = composites[name] else { return 0 }
        if depth > Self.maximumDepth { return nil }
        compositeMeasures[name] = .beingMeasured
        var count = 0
        var nesting = 0
        for element in composite.elements {
            if element.type != .composite {
                count += 1
                continue
            }
            let inner = element.compositeName ?? ""
            guard let innerCount = slotCount(ofComposite: inner, depth: depth + 1) else {
                compositeMeasures[name] = .unbounded
                return nil
            }
            count += innerCount
            if case .measured(_, let innerNesting)? = compositeMeasures[inner] {
                nesting = max(nesting, innerNesting + 1)
            }
        }
        count = max(1, min(count, Self.maximumTotalSlotCount))
        compositeMeasures[name] = .measured(count: count, nesting: nesting)
        return count
    }
}
