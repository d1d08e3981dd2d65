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
            {% if property.kind == "fetched" %}
                // Read by key, because {{ property.undeclared }}: it is there if the model comes from elsewhere.
                {{ access }}var {{ property.swiftName }}: {{ property.type }} {
                    get throws { {{ property.get }} }
                }
            {% elif property.undeclared %}
                // Read by key, because {{ property.undeclared }}: it is there if the model comes from elsewhere.
                {{ access }}var {{ property.swiftName }}: {{ property.type }} {
                    get { {{ property.get }} }
            {% if not property.isDerived %}
                    set { {{ property.set }} }
            {% endif %}
                }
            {% elif property.kind == "attribute" %}
                @Attribute{{ property.macroArguments }} {{ access }}var {{ property.swiftName }}: {{ property.type }}
            {% elif property.kind == "relationship" %}
                @Relationship{{ property.macroArguments }} {{ access }}var {{ property.swiftName }}: {{ property.type }}
            {% else %}
                // “{{ property.name }}” is left out: {{ property.reason }}.
            {% endif %}
            {% endfor %}
            }
            """#,
        ])
}
