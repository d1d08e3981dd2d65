// The templates for new documents, as parts of every program that uses them. A test compares them with the folder.
#include "CTemplates.h"

#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char file0[] = {
#embed "../QuireDocuments/Resources/Templates/Blank/Description.txt"
};
static const unsigned char file1[] = {
#embed "../QuireDocuments/Resources/Templates/Blank/Model.xcdatamodeld/Model.xcdatamodel/contents"
};
static const unsigned char file2[] = {
#embed "../QuireDocuments/Resources/Templates/Blank/Seed.json"
};
static const unsigned char file3[] = {
#embed "../QuireDocuments/Resources/Templates/Contacts/Description.txt"
};
static const unsigned char file4[] = {
#embed "../QuireDocuments/Resources/Templates/Contacts/Model.xcdatamodeld/Model.xcdatamodel/contents"
};
static const unsigned char file5[] = {
#embed "../QuireDocuments/Resources/Templates/Contacts/Seed.json"
};
static const unsigned char file6[] = {
#embed "../QuireDocuments/Resources/Templates/Inventory/Description.txt"
};
static const unsigned char file7[] = {
#embed "../QuireDocuments/Resources/Templates/Inventory/Model.xcdatamodeld/Model.xcdatamodel/contents"
};
static const unsigned char file8[] = {
#embed "../QuireDocuments/Resources/Templates/Inventory/Seed.json"
};
static const unsigned char file9[] = {
#embed "../QuireDocuments/Resources/Templates/Journal/Description.txt"
};
static const unsigned char file10[] = {
#embed "../QuireDocuments/Resources/Templates/Journal/Model.xcdatamodeld/Model.xcdatamodel/contents"
};
static const unsigned char file11[] = {
#embed "../QuireDocuments/Resources/Templates/Journal/Seed.json"
};
static const unsigned char file12[] = {
#embed "../QuireDocuments/Resources/Templates/Library/Description.txt"
};
static const unsigned char file13[] = {
#embed "../QuireDocuments/Resources/Templates/Library/Model.xcdatamodeld/Model.xcdatamodel/contents"
};
static const unsigned char file14[] = {
#embed "../QuireDocuments/Resources/Templates/Library/Seed.json"
};
static const unsigned char file15[] = {
#embed "../QuireDocuments/Resources/Templates/Notes/AdditionalContent/Style.css"
};
static const unsigned char file16[] = {
#embed "../QuireDocuments/Resources/Templates/Notes/Description.txt"
};
static const unsigned char file17[] = {
#embed "../QuireDocuments/Resources/Templates/Notes/Model.xcdatamodeld/Model.xcdatamodel/contents"
};
static const unsigned char file18[] = {
#embed "../QuireDocuments/Resources/Templates/Notes/Seed.json"
};
static const unsigned char file19[] = {
#embed "../QuireDocuments/Resources/Templates/Recipes/Description.txt"
};
static const unsigned char file20[] = {
#embed "../QuireDocuments/Resources/Templates/Recipes/Model.xcdatamodeld/Model.xcdatamodel/contents"
};
static const unsigned char file21[] = {
#embed "../QuireDocuments/Resources/Templates/Recipes/Seed.json"
};

static const struct template_file files[] = {
    {"Blank/Description.txt", file0, sizeof file0},
    {"Blank/Model.xcdatamodeld/Model.xcdatamodel/contents", file1, sizeof file1},
    {"Blank/Seed.json", file2, sizeof file2},
    {"Contacts/Description.txt", file3, sizeof file3},
    {"Contacts/Model.xcdatamodeld/Model.xcdatamodel/contents", file4, sizeof file4},
    {"Contacts/Seed.json", file5, sizeof file5},
    {"Inventory/Description.txt", file6, sizeof file6},
    {"Inventory/Model.xcdatamodeld/Model.xcdatamodel/contents", file7, sizeof file7},
    {"Inventory/Seed.json", file8, sizeof file8},
    {"Journal/Description.txt", file9, sizeof file9},
    {"Journal/Model.xcdatamodeld/Model.xcdatamodel/contents", file10, sizeof file10},
    {"Journal/Seed.json", file11, sizeof file11},
    {"Library/Description.txt", file12, sizeof file12},
    {"Library/Model.xcdatamodeld/Model.xcdatamodel/contents", file13, sizeof file13},
    {"Library/Seed.json", file14, sizeof file14},
    {"Notes/AdditionalContent/Style.css", file15, sizeof file15},
    {"Notes/Description.txt", file16, sizeof file16},
    {"Notes/Model.xcdatamodeld/Model.xcdatamodel/contents", file17, sizeof file17},
    {"Notes/Seed.json", file18, sizeof file18},
    {"Recipes/Description.txt", file19, sizeof file19},
    {"Recipes/Model.xcdatamodeld/Model.xcdatamodel/contents", file20, sizeof file20},
    {"Recipes/Seed.json", file21, sizeof file21},
};

const struct template_file *template_files(size_t *count) {
    *count = sizeof files / sizeof files[0];
    return files;
}
