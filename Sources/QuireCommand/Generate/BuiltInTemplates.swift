extension ClassTemplate {
    /// The templates that are part of the program; the first is taken if none is named.
    static let builtIn = [macros, accessors]

    /// Plain subclasses, for programs that do without macros.
    private static let accessors = ClassTemplate(
        builtIn: "accessors",
        summary: "Subclasses whose properties read and write by key; they require only Quire.",
        sources: [
            headerName: """
            {% if needsFoundation %}
            {{ access }}import Foundation
            {% endif %}
            {{ access }}import Quire
            """,
            modelName: bindingSource,
            entityName: #"""
            {% for note in entity.notes %}
            // {{ note }}
            {% endfor %}
            {{ access }}{{ entity.final }}class {{ entity.class }}: {{ entity.superclass }} {
            {% for property in entity.properties %}
            {% for note in property.notes %}
                // {{ note }}
            {% endfor %}
            {% if property.kind == "attribute" %}
                {{ access }}var {{ property.swiftName }}: {{ property.type }} {
                    get { {{ property.get }} }
            {% if not property.isDerived %}
                    set { {{ property.set }} }
            {% endif %}
                }
            {% elif property.kind == "relationship" and property.isToMany %}
                {{ access }}var {{ property.swiftName }}: {{ property.type }} {
                    get { self[{{ property.nameLiteral }}, as: {{ property.type }}.self] }
                    set { self[{{ property.nameLiteral }}] = newValue }
                }
            {% elif property.kind == "relationship" %}
                {{ access }}var {{ property.swiftName }}: {{ property.type }} {
                    get { self[{{ property.nameLiteral }}, as: {{ property.destinationClass }}.self] }
                    set { self[{{ property.nameLiteral }}] = newValue }
                }
            {% elif property.kind == "fetched" %}
                {{ access }}var {{ property.swiftName }}: {{ property.type }} {
                    get throws { {{ property.get }} }
                }
            {% else %}
                // “{{ property.name }}” is omitted: {{ property.reason }}.
            {% endif %}
            {% if not forloop.last %}

            {% endif %}
            {% endfor %}
            }
            """#,
        ])

    /// Binds the classes to the entities of a model that comes from elsewhere.
    private static let bindingSource = #"""
        private let {{ model.classesName }}: [String: any EntityClass.Type] = [
        {% for entity in entities %}
            {{ entity.nameLiteral }}: {{ entity.class }}.self,
        {% empty %}
            :
        {% endfor %}
        ]

        extension ManagedObjectModel {
            /// Makes the objects of the model's entities instances of their classes. Call it before opening a
            /// document or a store with the model.
            {{ access }}mutating func bind{{ model.swiftName }}Classes() {
                for index in entities.indices {
                    guard let objectClass = {{ model.classesName }}[entities[index].name] else { continue }
                    entities[index].objectClass = objectClass
                }
            }
        }
        """#
}

// MARK: - Macros

extension ClassTemplate {
    /// Classes of QuireMacros.
    static let macros = ClassTemplate(
        builtIn: "macros",
        summary: "Classes of QuireMacros, which read and write by slot and can declare the model.",
        sources: [
            headerName: """
            {% if needsFoundation %}
            {{ access }}import Foundation
            {% endif %}
            {{ access }}import Quire
            import QuireMacros
            """,
            modelName: #"""
            /// The classes of the model's entities: for `SQLiteStoreOptions.objectClasses`,
            /// `ManagedObjectModel.bind(classes:)` and `ManagedObjectModel(classes:)`.
            {{ access }}let {{ model.classesName }}: [any EntityClass.Type] = [
            {% for entity in entities %}
                {{ entity.class }}.self,
            {% endfor %}
            ]
            """#,
            compositesName: #"""
            {% for composite in composites %}
            @Composite{{ composite.macroArguments }} {{ access }}struct {{ composite.structure }} {
            {% for element in composite.elements %}
                {{ access }}var {{ element.swiftName }}: {{ element.type }}
            {% endfor %}
            }
            {% if not forloop.last %}

            {% endif %}
            {% endfor %}
            """#,
            entityName: #"""
            {% for note in entity.notes %}
            // {{ note }}
            {% endfor %}
            {% for note in entity.undeclared %}
            // {{ note }}
            {% endfor %}
            @Entity{{ entity.macroArguments }} {{ access }}{{ entity.final }}class {{ entity.class }}: {{ entity.superclass }} {
            {% for property in entity.properties %}
            {% for note in property.notes %}
                // {{ note }}
            {% endfor %}
            {% if property.kind == "fetched" and not property.undeclared %}
                @FetchedProperty{{ property.macroArguments }} {{ access }}var {{ property.swiftName }}: {{ property.type }}
            {% elif property.kind == "fetched" %}
                // Read by key, because {{ property.undeclared }}; it exists if the model comes from elsewhere.
                {{ access }}var {{ property.swiftName }}: {{ property.type }} {
                    get throws { {{ property.get }} }
                }
            {% elif property.undeclared %}
                // Read by key, because {{ property.undeclared }}; it exists if the model comes from elsewhere.
                {{ access }}var {{ property.swiftName }}: {{ property.type }} {
                    get { {{ property.get }} }
            {% if not property.isDerived %}
                    set { {{ property.set }} }
            {% endif %}
                }
            {% elif property.structure %}
                @Attribute{{ property.macroArguments }} {{ access }}var {{ property.swiftName }}: {{ property.structure }}
            {% elif property.kind == "attribute" %}
                @Attribute{{ property.macroArguments }} {{ access }}var {{ property.swiftName }}: {{ property.type }}
            {% elif property.kind == "relationship" %}
                @Relationship{{ property.macroArguments }} {{ access }}var {{ property.swiftName }}: {{ property.type }}
            {% else %}
                // “{{ property.name }}” is omitted: {{ property.reason }}.
            {% endif %}
            {% endfor %}
            }
            """#,
        ])
}
