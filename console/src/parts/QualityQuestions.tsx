/** The knowledge base's own questions, which evaluations ask. They are added from answers. */
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Header from "@cloudscape-design/components/header";
import Link from "@cloudscape-design/components/link";
import Table from "@cloudscape-design/components/table";
import { useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import type { OwnQuestion } from "../api/schema";
import { Confirm } from "./Confirm";
import { askLink, count, day, Paged, PAGING } from "./InboxMore";
import { MarkCanary } from "./QualityCanaries";

export function QualityQuestions() {
  const questions = useInfiniteQuery({
    queryKey: ["evaluations", "questions"],
    queryFn: ({ pageParam }) =>
      data(api.GET("/evaluations/questions", { params: { query: { limit: 100, after: pageParam } } })),
    ...PAGING,
  });
  return (
    <Paged query={questions}>
      {(pages) => (
        <Table
          items={pages.flatMap((page) => page.questions)}
          trackBy="questionId"
          wrapLines
          ariaLabels={{ tableLabel: "Own questions" }}
          header={
            <Header
              variant="h2"
              counter={count(questions, (page) => page.questions)}
              description="Ask something, and mark the right document of the answer: the question is added here."
            >
              Questions
            </Header>
          }
          empty="There are none yet"
          columnDefinitions={[
            {
              id: "text",
              header: "Question",
              isRowHeader: true,
              minWidth: 220,
              cell: (one) => <Link href={askLink(one.text)}>{one.text}</Link>,
            },
            { id: "documents", header: "Right documents", cell: (one) => one.titles.join(", ") || "none answers it" },
            { id: "source", header: "Source", cell: (one) => one.source },
            { id: "added", header: "Added", cell: (one) => `${day(one.addedAt)} by ${one.by || "unknown"}` },
            { id: "canary", header: "Canary", cell: (one) => <MarkCanary question={one} /> },
            { id: "remove", header: "Remove", cell: (one) => <Remove question={one} /> },
          ]}
        />
      )}
    </Paged>
  );
}

function Remove({ question }: { question: OwnQuestion }) {
  const [isAsking, setAsking] = useState(false);
  const queries = useQueryClient();
  const remove = useMutation({
    mutationFn: () =>
      data(api.DELETE("/evaluations/questions/{questionId}", { params: { path: { questionId: question.questionId } } })),
    onSuccess: async () => {
      setAsking(false);
      await queries.invalidateQueries({ queryKey: ["evaluations"] });
    },
  });
  return (
    <>
      <Button variant="inline-link" ariaLabel={`Remove “${question.text}”`} onClick={() => setAsking(true)}>
        Remove
      </Button>
      {isAsking ? (
        <Confirm
          header="Remove the question?"
          action="Remove"
          isBusy={remove.isPending}
          error={remove.error}
          onConfirm={() => remove.mutate()}
          onDismiss={() => setAsking(false)}
        >
          <Box>Evaluations don’t ask it any more. Earlier runs keep it.</Box>
        </Confirm>
      ) : null}
    </>
  );
}
