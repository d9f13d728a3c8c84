// Drives a KServe server with grpc-go and stubs of proto/, and prints what it saw as JSON, for kserve-clients.test.ts.
//
//	kserve-client ADDRESS KEY
//
// ADDRESS serves the models of kserve-models.mjs and stator-mini to who has KEY.
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "stator/kserve/inference"
)

func int32s(values []byte) []int32 {
	list := make([]int32, len(values)/4)
	if err := binary.Read(bytes.NewReader(values), binary.LittleEndian, list); err != nil {
		log.Fatal(err)
	}
	return list
}

func vectors(isRaw bool) *pb.ModelInferRequest {
	a, b := make([]int32, 16), make([]int32, 16)
	var rawA, rawB bytes.Buffer
	for at := range a {
		a[at], b[at] = int32(at), 1
	}
	request := &pb.ModelInferRequest{ModelName: "simple", Id: "go"}
	for name, values := range map[string][]int32{"INPUT0": a, "INPUT1": b} {
		input := &pb.ModelInferRequest_InferInputTensor{Name: name, Datatype: "INT32", Shape: []int64{1, 16}}
		request.Inputs = append(request.Inputs, input)
		raw := &rawA
		if name == "INPUT1" {
			raw = &rawB
		}
		if !isRaw {
			input.Contents = &pb.InferTensorContents{IntContents: values}
			continue
		}
		binary.Write(raw, binary.LittleEndian, values)
		request.RawInputContents = append(request.RawInputContents, raw.Bytes())
	}
	return request
}

func text(prompt string, isStream bool, maxTokens int64) *pb.ModelInferRequest {
	return &pb.ModelInferRequest{
		ModelName: "stator-mini",
		Inputs: []*pb.ModelInferRequest_InferInputTensor{
			{Name: "text_input", Datatype: "BYTES", Shape: []int64{1},
				Contents: &pb.InferTensorContents{BytesContents: [][]byte{[]byte(prompt)}}},
			{Name: "streaming", Datatype: "BOOL", Shape: []int64{1},
				Contents: &pb.InferTensorContents{BoolContents: []bool{isStream}}},
		},
		Parameters: map[string]*pb.InferParameter{
			"max_tokens": {ParameterChoice: &pb.InferParameter_Int64Param{Int64Param: maxTokens}},
		},
	}
}

func said(response *pb.ModelInferResponse) string {
	return string(response.Outputs[0].Contents.BytesContents[0])
}

func failure(err error) []string {
	s := status.Convert(err)
	return []string{s.Code().String(), s.Message()}
}

func stream(ctx context.Context, client pb.GRPCInferenceServiceClient) (string, []string) {
	call, err := client.ModelStreamInfer(ctx)
	if err != nil {
		log.Fatal(err)
	}
	call.Send(text("What are you?", true, 4))
	call.Send(&pb.ModelInferRequest{ModelName: "nope"})
	call.CloseSend()
	words := ""
	for {
		response, err := call.Recv()
		if err == io.EOF {
			return words, nil
		}
		if err != nil {
			return words, failure(err)
		}
		words += said(response.InferResponse)
	}
}

func main() {
	connection, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	bare, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	ctx := metadata.AppendToOutgoingContext(bare, "authorization", "Bearer "+os.Args[2])
	byName := metadata.AppendToOutgoingContext(bare, "x-api-key", os.Args[2])
	client := pb.NewGRPCInferenceServiceClient(connection)
	report := map[string]any{}

	live, err := client.ServerLive(bare, &pb.ServerLiveRequest{})
	report["live"] = err == nil && live.Live
	health, err := healthpb.NewHealthClient(connection).Check(bare, &healthpb.HealthCheckRequest{})
	report["health"] = err == nil && health.Status == healthpb.HealthCheckResponse_SERVING
	_, err = client.ModelInfer(bare, vectors(true))
	report["without a key"] = failure(err)
	_, err = client.ModelMetadata(bare, &pb.ModelMetadataRequest{Name: "simple"})
	report["metadata without a key"] = failure(err)

	raw, err := client.ModelInfer(ctx, vectors(true))
	if err != nil {
		log.Fatal(err)
	}
	sums := map[string][]int32{}
	for at, output := range raw.Outputs {
		sums[output.Name] = int32s(raw.RawOutputContents[at])
	}
	report["raw"] = fmt.Sprint(sums["OUTPUT0"], sums["OUTPUT1"])
	report["id"] = raw.Id
	typed, err := client.ModelInfer(byName, vectors(false))
	if err != nil {
		log.Fatal(err)
	}
	report["typed"] = fmt.Sprint(typed.Outputs[0].Contents.IntContents, typed.Outputs[1].Contents.IntContents)
	whole, err := client.ModelInfer(ctx, text("What are you?", false, 4))
	if err != nil {
		log.Fatal(err)
	}
	report["whole"] = said(whole)
	report["streamed"], report["stream ends"] = stream(ctx, client)

	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err = client.ModelInfer(short, text("What are you?", false, 4000))
	report["late"] = failure(err)
	large := vectors(true)
	large.RawInputContents[0] = make([]byte, 5<<20)
	_, err = client.ModelInfer(ctx, large)
	report["large"] = failure(err)
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		log.Fatal(err)
	}
}
