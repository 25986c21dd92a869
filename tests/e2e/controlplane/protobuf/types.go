// Prints the protobuf form of Kubernetes' built-in kinds, or samples in it: see protobuf_types.txt of
// koordpy's embedded API server, whose head explains the notation.
// The README of the folder above has the commands.
package main

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

const head = `# The protobuf form of the built-in kinds of Kubernetes, as far as their versions are stable.
#
# Made by tests/e2e/controlplane/protobuf from the Go types; its README says how. A line without indentation
# is a type, with apiVersion and kind if it is one that requests may have. Its fields follow:
# NUMBER:NAME:TYPE, with the JSON name. Types are s (string), i (integer), b (bool), d (double), y (bytes) or
# the name of another type. Before it may be [] (repeated), {} (a map with string keys), * (zero is a value
# of its own), ^ (its fields are part of this object in JSON); after it ? (left out of JSON when empty).
`

var (
	stable = regexp.MustCompile(`^v[0-9]+$`)
	// In JSON these are no objects with the fields of their message, or have no fields there.
	special = map[string]bool{
		"meta.v1.Time": true, "meta.v1.MicroTime": true, "meta.v1.Duration": true, "meta.v1.FieldsV1": true,
		"resource.Quantity": true, "intstr.IntOrString": true, "runtime.RawExtension": true,
		"apiextensions.v1.JSON": true, "apiextensions.v1.JSONSchemaPropsOrArray": true,
		"apiextensions.v1.JSONSchemaPropsOrBool": true, "apiextensions.v1.JSONSchemaPropsOrStringArray": true,
		"authentication.v1.ExtraValue": true, "authorization.v1.ExtraValue": true,
		"certificates.v1.ExtraValue": true,
	}
)

// Kinds that no client sends: options of URLs, events of watches, and lists.
func sent(kind string) bool {
	if strings.HasSuffix(kind, "Options") {
		return kind == "DeleteOptions"
	}
	return kind != "WatchEvent" && !strings.HasSuffix(kind, "List")
}

func kinds() map[schema.GroupVersionKind]reflect.Type {
	if err := apiextensions.AddToScheme(scheme.Scheme); err != nil {
		panic(err)
	}
	// Each group has its own name for these options; all are the same.
	options := schema.GroupVersion{Group: "meta.k8s.io", Version: "v1"}
	scheme.Scheme.AddKnownTypes(options, &meta.DeleteOptions{})
	found := map[schema.GroupVersionKind]reflect.Type{}
	for gvk, type_ := range scheme.Scheme.AllKnownTypes() {
		_, marshals := reflect.New(type_).Interface().(interface{ Marshal() ([]byte, error) })
		if stable.MatchString(gvk.Version) && sent(gvk.Kind) && marshals {
			if gvk.Kind != "DeleteOptions" || gvk.GroupVersion() == options {
				found[gvk] = type_
			}
		}
	}
	return found
}

func order(found map[schema.GroupVersionKind]reflect.Type) []schema.GroupVersionKind {
	var sorted []schema.GroupVersionKind
	for gvk := range found {
		sorted = append(sorted, gvk)
	}
	slices.SortFunc(sorted, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	return sorted
}

func nameOf(type_ reflect.Type) string {
	path := strings.Split(type_.PkgPath(), "/")
	last := path[len(path)-1]
	if stable.MatchString(last) {
		last = path[len(path)-2] + "." + last
	}
	return last + "." + type_.Name()
}

func main() {
	switch {
	case len(os.Args) == 2 && os.Args[1] == "types":
		printTypes()
	case len(os.Args) == 2 && os.Args[1] == "samples":
		printSamples()
	default:
		fmt.Fprintln(os.Stderr, "usage: protobuf types|samples")
		os.Exit(2)
	}
}

func printTypes() {
	types, requested := map[string]reflect.Type{}, map[string]string{}
	found := kinds()
	for _, gvk := range order(found) {
		requested[nameOf(found[gvk])] = " " + gvk.GroupVersion().String() + " " + gvk.Kind
		collect(found[gvk], types)
	}
	var names []string
	for name := range types {
		names = append(names, name)
	}
	sort.Strings(names)
	fmt.Print(head)
	for _, name := range names {
		fmt.Printf("%s%s\n", name, requested[name])
		for _, line := range fields(types[name]) {
			fmt.Println("  " + line)
		}
	}
}

func collect(type_ reflect.Type, types map[string]reflect.Type) {
	switch type_.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		if !special[nameOf(type_)] {
			collect(type_.Elem(), types)
		}
	case reflect.Struct:
		name := nameOf(type_)
		if types[name] != nil || special[name] && !strings.Contains(name, "JSONSchema") {
			return
		}
		if !special[name] {
			types[name] = type_
		}
		for i := range type_.NumField() {
			if special[name] || type_.Field(i).Tag.Get("protobuf") != "" {
				collect(type_.Field(i).Type, types)
			}
		}
	}
}

// The fields of a type, as many on a line as fit.
func fields(type_ reflect.Type) []string {
	lines := []string{""}
	for i := range type_.NumField() {
		field := type_.Field(i)
		tag := field.Tag.Get("protobuf")
		if tag == "" || tag == "-" {
			continue
		}
		number := strings.Split(tag, ",")[1]
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		wire := wireType(field.Type)
		if strings.Contains(options, "inline") || name == "" {
			name, wire = field.Name, "^"+wire
		}
		if strings.Contains(options, "omitempty") && field.Type.Kind() != reflect.Pointer || strings.Contains(options, "omitzero") {
			if field.Type.Kind() != reflect.Struct || strings.Contains(options, "omitzero") {
				wire += "?"
			}
		}
		text := number + ":" + name + ":" + wire
		last := &lines[len(lines)-1]
		if *last == "" {
			*last = text
		} else if len(*last)+len(text) < 108 {
			*last += " " + text
		} else {
			lines = append(lines, text)
		}
	}
	if lines[0] == "" {
		return nil
	}
	return lines
}

func wireType(type_ reflect.Type) string {
	if special[nameOf(type_)] {
		return nameOf(type_)
	}
	switch type_.Kind() {
	case reflect.String:
		return "s"
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint32, reflect.Uint64:
		return "i"
	case reflect.Bool:
		return "b"
	case reflect.Float64:
		return "d"
	case reflect.Pointer:
		return "*" + wireType(type_.Elem())
	case reflect.Slice:
		if type_.Elem().Kind() == reflect.Uint8 {
			return "y"
		}
		return "[]" + wireType(type_.Elem())
	case reflect.Map:
		return "{}" + wireType(type_.Elem())
	case reflect.Struct:
		return nameOf(type_)
	}
	panic("no protobuf form of " + type_.String())
}
