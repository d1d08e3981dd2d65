internal import QuireSystem

/// Finds the properties of a class in the entity it is bound to.
///
/// The table is made with the entity's layout; whether everything fits is checked when all layouts are there,
/// and every misfit is found, not only the first.
enum ClassBinding {
    /// For each property of the class, by ordinal, the slot of an attribute or a to-one relationship, or the
    /// position of a to-many relationship; -1 where there is none, for ``check(_:in:)`` to complain about.
    static func table(
        of objectClass: (any EntityClass.Type)?, properties: [String: EntityLayout.Property],
        relationships: [EntityLayout.Relationship]
    ) -> ContiguousArray<Int> {
        guard let declaration = objectClass?.entityDeclaration else { return [] }
        return ContiguousArray(
            declaration.allProperties.map { property in
                switch properties[property.key] {
                case .attribute(let slot)?: slot
                case .relationship(let index)?: relationships[index].slot ?? index
                default: -1
                }
            })
    }

    /// Checks that classes fit their entities.
    ///
    /// - Throws: ``QuireError`` with code `invalidModel`, naming class, entity and property.
    static func check(_ layout: ModelLayout) throws {
        var failures: [QuireError] = []
        for entity in layout.entities {
            guard let objectClass = entity.objectClass else { continue }
            let superentity = entity.superentityNumber.map { layout.entity(number: $0) }
            if let superclass = superentity?.objectClass {
                // Whatever is wrong has been said of that.
                if superclass == objectClass { continue }
                if !superclass.isSuperclass(of: objectClass) {
                    failures.append(
                        failure(
                            entity, nil,
                            "\(objectClass), the class of “\(entity.name)”, must be a subclass of \(superclass), "
                                + "the class of its superentity “\(superentity?.name ?? "")”."))
                }
            }
            for property in objectClass.entityDeclaration?.allProperties ?? [] {
                if let misfit = misfit(of: property, in: entity, layout) {
                    failures.append(
                        failure(
                            entity, property.key,
                            "“\(property.name)” of the class \(objectClass) does not fit the entity "
                                + "“\(entity.name)”: \(misfit)"))
                }
            }
        }
        if !failures.isEmpty { throw QuireError.combining(failures) }
    }

    private static func failure(
        _ entity: EntityLayout, _ property: String?, _ message: String
    ) -> QuireError {
        QuireError(
            .invalidModel, message, subject: .init(entity: entity.name, property: property))
    }

    /// What is wrong, and what to do about it.
    private static func misfit(
        of property: EntityDeclaration.Property, in entity: EntityLayout, _ layout: ModelLayout
    ) -> String? {
        switch (property.form, entity.properties[property.key]) {
        case (_, nil):
            let names = entity.propertyNames.joined(separator: ", ")
            return
                "it has no property “\(property.key)”. Name one of its own by “key:”: \(names)."
        case (.attribute(let types), .attribute(let slot)?):
            guard let type = entity.slots[slot].attribute?.type, !types.contains(type) else {
                return nil
            }
            let fitting = types.map(\.title).joined(separator: " or ")
            return
                "there it is of type \(type.title), but the class takes \(fitting). Change the type in the class."
        case (.toOne(let destination), .relationship(let index)?),
            (.toMany(let destination, _), .relationship(let index)?):
            return misfit(
                of: property, to: destination, entity.relationships[index], layout)
        case (.attribute, .relationship?):
            return "there it is a relationship. Mark it @Relationship in the class."
        case (_, .attribute?):
            return "there it is an attribute. Mark it @Attribute in the class."
        case (_, .composite?):
            return "there it is composite; read it by its key, and take it out of the class."
        case (_, .fetched?):
            return "there it is a fetched property; take it out of the class."
        }
    }

    private static func misfit(
        of property: EntityDeclaration.Property, to destination: any EntityClass.Type,
        _ relationship: EntityLayout.Relationship, _ layout: ModelLayout
    ) -> String? {
        switch property.form {
        case .attribute: break
        case .toOne where relationship.isToMany:
            return
                "there it leads to many objects. Make it a \(relationship.isOrdered ? "Array" : "Set")."
        case .toMany where !relationship.isToMany:
            return "there it leads to at most one object. Make it an optional."
        case .toMany(_, isOrdered: false) where relationship.isOrdered:
            return "there its objects have an order. Make it an Array."
        case .toMany(_, isOrdered: true) where !relationship.isOrdered:
            return "there its objects have no order. Make it a Set."
        case .toOne, .toMany: break
        }
        let target = layout.destination(of: relationship)
        let objectClass = target.objectClass ?? destination.plainClass
        return destination.isSuperclass(of: objectClass)
            ? nil
            : "it leads to “\(target.name)”, whose class is \(objectClass). Bind \(destination), or a "
                + "subclass of it, to that entity."
    }
}
