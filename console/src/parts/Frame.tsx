/** Navigation around every page. */
import AppLayout from "@cloudscape-design/components/app-layout";
import SideNavigation, { type SideNavigationProps } from "@cloudscape-design/components/side-navigation";
import { useState } from "react";
import { Outlet, useLocation, useNavigate } from "react-router";
import { session } from "../api/client";
import { LeaveGuard } from "./Unsaved";

const PAGES: SideNavigationProps.Item[] = [
  { type: "link", text: "Ask", href: "#/" },
  { type: "link", text: "Documents", href: "#/documents" },
  { type: "link", text: "Inbox", href: "#/inbox" },
  { type: "link", text: "Coverage", href: "#/coverage" },
  { type: "link", text: "Sources", href: "#/sources" },
  { type: "link", text: "Graph", href: "#/graph" },
  { type: "link", text: "Learning", href: "#/learning" },
  { type: "link", text: "Quality", href: "#/quality" },
  { type: "link", text: "Tenants", href: "#/tenants" },
  { type: "link", text: "Health and audit", href: "#/health" },
];

const LABELS = {
  navigation: "Pages",
  navigationToggle: "Show the pages",
  navigationClose: "Hide the pages",
  tools: "Help",
  toolsToggle: "Show help",
  toolsClose: "Hide help",
};

const SIGN_OUT = "#/sign-out";

/** The pages, and the way out for who signed in. */
function items(): SideNavigationProps.Item[] {
  const opened = session();
  if (!opened) return PAGES;
  const text = opened.name ? `Sign out (${opened.name})` : "Sign out";
  return [...PAGES, { type: "divider" }, { type: "link", text, href: SIGN_OUT }];
}

export function Frame() {
  const { pathname } = useLocation();
  const navigate = useNavigate();
  const [open, setOpen] = useState(() => window.innerWidth > 900);
  const active = `#/${pathname.split("/")[1] ?? ""}`.replace("#/answers", "#/");
  return (
    <AppLayout
      ariaLabels={LABELS}
      toolsHide
      navigationOpen={open}
      onNavigationChange={({ detail }) => setOpen(detail.open)}
      navigation={
        <SideNavigation
          activeHref={active}
          header={{ text: "OPX Knowledge", href: "#/" }}
          items={items()}
          onFollow={(event) => {
            event.preventDefault();
            if (event.detail.href === SIGN_OUT) return session()?.signOut();
            void navigate(event.detail.href.slice(1));
            if (window.innerWidth <= 900) setOpen(false);
          }}
        />
      }
      content={
        <>
          <Outlet />
          <LeaveGuard />
        </>
      }
    />
  );
}
