/** The models of confidence: which are in use, fit them to this corpus, or return to the shipped ones. */
import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import type { CalibrationFacts, CalibrationReport, CalibrationStatus } from "../api/schema";
import { Problem } from "./Failed";
import { Confirm } from "./Confirm";
import { Loaded } from "./Loaded";

const MODELS: Record<CalibrationStatus["models"], string> = {
  calibrated: "fitted to this corpus",
  fitted: "shipped for this embedding model",
  general: "shipped for any embedding model; similarities of meaning are not used",
};

export function HealthCalibration() {
  const client = useQueryClient();
  const calibration = useQuery({ queryKey: ["calibration"], queryFn: () => data(api.GET("/calibration")) });
  const refresh = async (): Promise<void> => {
    await Promise.all(["calibration", "status"].map((name) => client.invalidateQueries({ queryKey: [name] })));
  };
  const fit = useMutation({ mutationFn: () => data(api.POST("/calibration", { body: {} })), onSuccess: refresh });
  return (
    <Loaded query={calibration}>
      {(status) => (
        <SpaceBetween size="m">
          {fit.isPending ? <Alert type="info">Fitting: questions are generated from the corpus and asked. It takes minutes.</Alert> : null}
          {fit.error ? <Problem error={fit.error} /> : null}
          {fit.data ? <Fitted report={fit.data} /> : null}
          <Container
            header={
              <Header
                variant="h2"
                actions={
                  <SpaceBetween size="xs" direction="horizontal">
                    <Button loading={fit.isPending} onClick={() => fit.mutate()}>
                      Fit to this corpus
                    </Button>
                    {status.calibration ? <Discard onDone={refresh} /> : null}
                  </SpaceBetween>
                }
              >
                Models of confidence
              </Header>
            }
          >
            <SpaceBetween size="m">
              {status.remark ? <Alert type="warning">{status.remark}</Alert> : null}
              <KeyValuePairs
                columns={2}
                items={[
                  { label: "In use", value: MODELS[status.models] },
                  { label: "Embedding model", value: status.embeddingModel },
                ]}
              />
              {status.calibration ? <Figures facts={status.calibration} /> : null}
            </SpaceBetween>
          </Container>
        </SpaceBetween>
      )}
    </Loaded>
  );
}

const loss = (value: number | null | undefined): string => (value == null ? "not measured" : value.toFixed(3));

function Figures({ facts }: { facts: CalibrationFacts }) {
  return (
    <KeyValuePairs
      columns={3}
      items={[
        { label: "Fitted", value: facts.madeAt.slice(0, 16).replace("T", " ") },
        { label: "Documents", value: facts.documents },
        { label: "Questions", value: facts.questions },
        { label: "Log loss before", value: loss(facts.lossBefore) },
        { label: "Log loss now", value: loss(facts.loss) },
        { label: "Similarities", value: facts.mapsCosines ? "mapped from another embedding model" : "of this embedding model" },
        { label: "Slope", value: facts.slope.toFixed(3) },
        { label: "Intercept", value: facts.intercept.toFixed(3) },
      ]}
    />
  );
}

function Fitted({ report }: { report: CalibrationReport }) {
  if (report.asked) return <Alert type="info">The fit was requested: the models below change once it is done.</Alert>;
  if (report.reason) return <Alert type="warning" header="The models are unchanged">{report.reason}</Alert>;
  return (
    <Alert type="success" header="Models fitted to this corpus are in use">
      {report.questions} questions about {report.documents} documents; log loss {loss(report.lossBefore)} before, {loss(report.loss)} now.
    </Alert>
  );
}

function Discard({ onDone }: { onDone: () => Promise<void> }) {
  const [isAsking, setAsking] = useState(false);
  const discard = useMutation({
    mutationFn: () => data(api.DELETE("/calibration")),
    onSuccess: async () => {
      setAsking(false);
      await onDone();
    },
  });
  return (
    <>
      <Button onClick={() => setAsking(true)}>Discard</Button>
      {isAsking ? (
        <Confirm
          header="Discard the calibration?"
          action="Discard"
          isBusy={discard.isPending}
          error={discard.error}
          onConfirm={() => discard.mutate()}
          onDismiss={() => setAsking(false)}
        >
          <Box>The shipped models of confidence are used again. Another fit makes a new calibration.</Box>
        </Confirm>
      ) : null}
    </>
  );
}
