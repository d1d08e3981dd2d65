import Foundation
import Quire

/// What a page's script knows of a document besides its objects: the model, the files, and how many objects there are.
struct PageModel: Encodable {
    /// The document's name.
    var title: String
    /// The entities, each after its superentity.
    var entities: [Entity]
    /// The additional content.
    var files: [DocumentPage.File]
    /// The number of pictures that are not in the page, because they are too large.
    var omittedPictures = 0

    struct Entity: Encodable {
        var name: String
        var parent: String?
        var abstract: Bool
        /// The number of its own objects in the page.
        var count = 0
        var unique: [[String]]
        var properties: [Property]
    }

    struct Property: Encodable {
        enum Kind: String, Encodable { case attribute, one, many, fetched }

        /// How values are aligned, compared and shown.
        enum Form: String, Encodable { case text, number, date, bytes, other }

        var name: String
        var kind: Kind
        /// The type in words.
        var type: String
        var form = Form.other
        /// Whether the entity declares it, rather than a superentity.
        var own: Bool
        /// The position of the values in a row; `nil` if the page has none.
        var column: Int?
        var required: Bool?
        var derived: String?
        var transient: Bool?
        var external: Bool?
        var initial: String?
        var destination: String?
        var inverse: String?
        var ordered: Bool?
        var deleteRule: String?
    }
}

/// A value of a row of a page: its source in the object.
enum PageColumn {
    case slot(ResolvedEntity.Slot)
    case toMany(ResolvedEntity.Relationship)
}

extension PageModel.Entity {
    /// Describes an entity, and finds the columns of its rows. They begin with those of its superentity, in the same order.
    init(_ entity: ResolvedEntity, in layout: ResolvedModel, columns: inout [PageColumn]) {
        name = entity.name
        parent = entity.superentityNumber.map { layout.entity(number: $0).name }
        abstract = entity.isAbstract
        unique = entity.description.uniquenessConstraints
        properties = []
        var owners = [entity]
        while let number = owners[0].superentityNumber {
            owners.insert(layout.entity(number: number), at: 0)
        }
        for owner in owners {
            let isOwn = owner.number == entity.number
            for slot in entity.slots where slot.ownerNumber == owner.number {
                guard let attribute = slot.attribute else { continue }
                // The key of the object comes first.
                if slot.isStored { columns.append(.slot(slot)) }
                let column = slot.isStored ? columns.count : nil
                properties.append(.init(attribute, slot: slot, own: isOwn, column: column))
            }
            for relationship in entity.relationships
            where relationship.ownerNumber == owner.number {
                let isStored = !relationship.description.isTransient
                if isStored {
                    columns.append(
                        relationship.slot.map { .slot(entity.slots[$0]) } ?? .toMany(relationship))
                }
                let column = isStored ? columns.count : nil
                properties.append(.init(relationship, in: layout, own: isOwn, column: column))
            }
        }
        for case .fetched(let fetched) in entity.description.properties {
            properties.append(
                .init(
                    name: fetched.name, kind: .fetched,
                    type: "fetched \(fetched.fetchRequest.entityName)", own: true))
        }
    }
}

extension PageModel.Property {
    init(_ attribute: AttributeDescription, slot: ResolvedEntity.Slot, own: Bool, column: Int?) {
        self.init(
            name: slot.name, kind: .attribute, type: attribute.type.title, own: own, column: column)
        switch attribute.type {
        case .integer16, .integer32, .integer64, .decimal, .double, .float: form = .number
        case .date: form = .date
        case .binary, .transformable: form = .bytes
        case .string: form = .text
        case .boolean, .uuid, .uri, .undefined, .objectID, .composite: form = .other
        }
        required = attribute.isOptional ? nil : true
        derived = attribute.derivationExpression
        transient = slot.isStored ? nil : true
        external = slot.isExternalCapable ? true : nil
        if !attribute.defaultValue.isNull, form != .bytes {
            initial = attribute.defaultValue.text(as: attribute.type)
        }
    }

    init(
        _ relationship: ResolvedEntity.Relationship, in layout: ResolvedModel, own: Bool,
        column: Int?
    ) {
        let description = relationship.description
        self.init(
            name: relationship.name, kind: relationship.isToMany ? .many : .one,
            type: "relationship", own: own, column: column)
        required = description.isOptional ? nil : true
        transient = description.isTransient ? true : nil
        destination = layout.destination(of: relationship).name
        inverse = layout.inverse(of: relationship)?.name
        ordered = relationship.isOrdered ? true : nil
        deleteRule = "\(description.deleteRule)"
    }
}
