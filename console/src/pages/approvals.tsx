/** Plans that wait for a second person. */
import { useQuery } from "@tanstack/react-query";
import { plans } from "../api/queries";
import { Asked, Empty } from "../parts/asked";
import { Card, Head } from "../parts/card";
import { useText } from "../text";
import { PlanTable, planColumns } from "./plans";

export function ApprovalsPage() {
  const { text } = useText();
  const query = useQuery(plans);
  return (
    <>
      <Head title={text.nav.approvals} under={text.plans.approvalsUnder} />
      <Card>
        <Asked query={query}>
          {(all) => {
            const waiting = all.filter((plan) => plan.shownState === "awaiting approval");
            return waiting.length === 0 ? (
              <Empty icon="approvals" title={text.empty.approvalsTitle}>
                {text.empty.approvals}
              </Empty>
            ) : (
              <PlanTable
                label={text.nav.approvals}
                plans={waiting}
                columns={planColumns(text).filter(
                  (column) =>
                    ![text.columns.outcome, text.columns.started, text.columns.approvedBy].includes(
                      column.title,
                    ),
                )}
              />
            );
          }}
        </Asked>
      </Card>
    </>
  );
}
