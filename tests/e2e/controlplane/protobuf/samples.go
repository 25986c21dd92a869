package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
)

// One line for each sample: what Go's encoder writes, and as JSON what Go's decoder reads from that.
type sample struct {
	Protobuf string          `json:"protobuf"`
	JSON     json.RawMessage `json:"json"`
}

func printSamples() {
	encoder := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	found := kinds()
	for _, gvk := range order(found) {
		for round := range 2 {
			filler := filler{random: rand.New(rand.NewSource(int64(round))), always: round == 0}
			value := reflect.New(found[gvk])
			filler.fill(value.Elem(), 0)
			object := value.Interface().(runtime.Object)
			object.GetObjectKind().SetGroupVersionKind(gvk)
			var encoded bytes.Buffer
			if err := encoder.Encode(object, &encoded); err != nil {
				panic(err)
			}
			decoded, _, err := encoder.Decode(encoded.Bytes(), nil, nil)
			if err != nil {
				panic(err)
			}
			document, err := json.Marshal(decoded)
			if err != nil {
				panic(err)
			}
			line, err := json.Marshal(sample{base64.StdEncoding.EncodeToString(encoded.Bytes()), document})
			if err != nil {
				panic(err)
			}
			fmt.Println(string(line))
		}
	}
}

type filler struct {
	random *rand.Rand
	always bool
}

const deepest = 12

// Fills all fields, or about half of them.
func (f *filler) fill(value reflect.Value, depth int) {
	switch special := value.Addr().Interface().(type) {
	case *meta.TypeMeta:
		return
	case *meta.Time:
		*special = meta.NewTime(time.Unix(f.random.Int63n(4e9)-1e9, 0).UTC())
		return
	case *meta.MicroTime:
		*special = meta.NewMicroTime(time.Unix(f.random.Int63n(2e9), f.random.Int63n(1e6)*1000).UTC())
		return
	case *meta.FieldsV1:
		special.Raw = []byte(`{"f:data":{".":{}}}`)
		return
	case *resource.Quantity:
		*special = resource.MustParse([]string{"1500m", "2Gi", "0", "1e3"}[f.random.Intn(4)])
		_ = special.String()
		return
	case *intstr.IntOrString:
		*special = []intstr.IntOrString{intstr.FromInt32(-7), intstr.FromInt32(0), intstr.FromString("25%")}[f.random.Intn(3)]
		return
	case *runtime.RawExtension:
		special.Raw = []byte(`{"kind":"A","spec":[1,null,{"b":true}]}`)
		return
	case *apiextensions.JSON:
		special.Raw = []byte(`[{"a":1.5},null]`)
		return
	case *apiextensions.JSONSchemaPropsOrArray:
		if depth > deepest {
			return
		}
	case *apiextensions.JSONSchemaPropsOrBool:
		special.Allows = true
		return
	case *apiextensions.JSONSchemaPropsOrStringArray:
		special.Property = []string{"a"}
		return
	}
	switch value.Kind() {
	case reflect.String:
		value.SetString([]string{"", "a", "värde", "b-1"}[f.random.Intn(4)])
	case reflect.Bool:
		value.SetBool(f.random.Intn(2) == 0)
	case reflect.Int, reflect.Int32, reflect.Int64:
		value.SetInt([]int64{0, 1, -1, 1 << 30}[f.random.Intn(4)])
	case reflect.Uint32, reflect.Uint64:
		value.SetUint(uint64(f.random.Intn(3)))
	case reflect.Float64:
		value.SetFloat(f.random.Float64())
	case reflect.Pointer:
		if f.wanted(depth) {
			value.Set(reflect.New(value.Type().Elem()))
			f.fill(value.Elem(), depth+1)
		}
	case reflect.Slice:
		if f.wanted(depth) {
			value.Set(reflect.MakeSlice(value.Type(), 1, 1))
			f.fill(value.Index(0), depth+1)
		}
	case reflect.Map:
		if f.wanted(depth) {
			value.Set(reflect.MakeMap(value.Type()))
			item := reflect.New(value.Type().Elem()).Elem()
			f.fill(item, depth+1)
			value.SetMapIndex(reflect.ValueOf("key").Convert(value.Type().Key()), item)
		}
	case reflect.Struct:
		for i := range value.NumField() {
			if value.Type().Field(i).IsExported() && value.Type().Field(i).Tag.Get("protobuf") != "-" {
				f.fill(value.Field(i), depth+1)
			}
		}
	case reflect.Uint8:
		value.SetUint(uint64(f.random.Intn(256)))
	default:
		panic(value.Type().String())
	}
}

func (f *filler) wanted(depth int) bool {
	return depth < deepest && (f.always || f.random.Intn(2) == 0)
}
